"""What clients send and get: OpenAI's shapes, and the reading of a body into them."""
