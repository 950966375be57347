"""The native decoder in PyTorch: the reference for compiled kernels, and the only path on CUDA.

`decoder.TorchDecoder` is one pass; `matrices` holds the weights, `operators` multiplies, `tiles`
makes products independent of the row count, `plan` and `attention` read keys in fixed blocks.
"""
