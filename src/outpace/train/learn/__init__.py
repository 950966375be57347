"""Training proper: batches, the head in torch, its objective, the loop, and how it is judged."""
