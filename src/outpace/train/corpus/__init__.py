"""The corpus: what the target is asked, what it answers, and what of that is kept."""
