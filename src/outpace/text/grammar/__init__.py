"""Structured outputs: answers that a JSON schema, regex, list of choices or grammar allows.

    spec.py      what a caller may ask for, as one frozen value
    request.py   the fields clients send (response_format, guided_json, ..) -> that value
    calls.py     calls of tools, forced or free, as such a value, and as a grammar
    words.py     the model's tokens, byte for byte, for the grammar library (llguidance)
    compile.py   value -> compiled grammar, within limits, remembered
    mask.py      a compiled grammar following one text: which tokens may come next

Exact under speculation: every row of a round has the mask of the guesses before it, drafters draw
under the same masks, and nothing that was drawn is cut afterwards. Nothing here is imported, and
the library not loaded, before a request asks for it.
"""
