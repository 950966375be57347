"""Control: what decides how far to guess, 0 included.

It learns from finished rounds and measured seconds, and answers before the next round's guesses
are made: it cannot see what it decides about, so no decision can bias the text (non-anticipation,
ARCHITECTURE.md).
"""
