"""The checks, by subject. Each is a function from an endpoint to what it found."""
