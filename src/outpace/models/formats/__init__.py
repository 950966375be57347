"""The two weight formats outpace reads, safetensors and GGUF, checked number by number."""
