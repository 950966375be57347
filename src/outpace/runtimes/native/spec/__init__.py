"""What a model is, read from its own files: sizes, norms, rotations, windows, tensor names.

`read.read_spec` is the door. Nothing here touches a weight, except to look at shapes.
"""
