"""Reading a trace backward: from a result to the stage and the earlier decision that allowed it.

`brief` is one pass over the file that keeps a few numbers per round, `cost` says why a round was
slow, `token` why a token is what it is, `summary` what a request came to, `words` how it is said.
"""
