"""A drafter that learned: a small head on the target's own hidden states (`outpace train`)."""
