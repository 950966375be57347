"""One process per peer, each in its own environment; `protocol.serve` is all they share."""
