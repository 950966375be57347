"""outpace: language models that answer faster, without changing a single probability."""

__version__ = "0.1.0.dev0"
