"""Several drafters as one: a tree of the best of all, or the best one's draft."""
