"""One pass of the decoder in C++, for CPUs: exact by construction, near the memory's limit.

    from outpace.runtimes.native.kernels import KernelDecoder, Matrix, ModelSpec, LayerWeights

    q = Matrix.pack(tensor.data, tensor.tensor_type, n=576, k=576)   # GGUF blocks as they are
    spec = ModelSpec(hidden=576, ..., layers=(LayerWeights(q=q, ...), ...), embedding=e, head=e)
    decoder = KernelDecoder(spec, n_pages=64, page_size=64)          # a `passes.Decoder`
    result = decoder.forward(Pass(...)); decoder.copy_slots(src, dst); decoder.close()

Every output element is one fixed sequence of IEEE operations on one thread. So a row's logits
are bit-equal whatever rows, sequences, chunk borders, pages and threads share its pass, and all
instruction-set paths agree bit for bit, too: integer sums are exact, and floating-point sums have
one order, defined by `cpp/simd_plain.h`.

`why_missing()` says why there is no compiled library, if so.
"""

from outpace.runtimes.native.kernels.decoder import KernelDecoder, TopK
from outpace.runtimes.native.kernels.library import default_threads, paths, why_missing
from outpace.runtimes.native.kernels.matrix import GGML, Format, Matrix
from outpace.runtimes.native.kernels.spec import Fine, KVType, LayerWeights, ModelSpec

__all__ = [
    "KernelDecoder",
    "ModelSpec",
    "LayerWeights",
    "Matrix",
    "Format",
    "GGML",
    "KVType",
    "Fine",
    "TopK",
    "paths",
    "why_missing",
    "default_threads",
]
