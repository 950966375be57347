"""Small vocabularies as GGUF files carry them, and texts that are hard on tokenizers."""

import json

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "  two spaces,   three,\ttabs\n\n\nand lines \r\n end ",
    "def f(x):\n    return x**2 + 1_000  # it's 3.14, isn't it?\n",
    "naïve café, Zürich, ŁÓDŹ, Ærø; 日本語のテキスト; 한국어; العربية 123; עברית",
    "👩‍👩‍👧‍👦 🎉🇺🇳 e\u0301 \u00a0 \ufeff \u200b \U0001d54f",
    "1234567890 12 3456 ½ ² ١٢٣",
    "", " ", "\n", "a", "'s 'S 'LL I'VE",
    "<|im_start|>user\nhi<|im_end|>\n",
)  # fmt: skip
MARKED = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def byte_level_fields(pre: str = "smollm", *, size: int = 400) -> dict[str, object]:
    """The metadata of a small trained byte-level vocabulary, as a GGUF file carries it."""
    trained = Backend(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(MARKED),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(list(TEXTS) * 3, trainer)
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if t in MARKED else 1 for t in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
    }


def sentencepiece_fields(architecture: str = "llama") -> dict[str, object]:
    """The metadata of a small SentencePiece-like vocabulary."""
    words = ["▁the", "▁qu", "ick", "▁", "th", "he", "▁t", "e", "t", "h", "q", "u", "i", "c", "k",
             "qu", "ic", "▁q", "ck", "s", ".", ",", "▁▁", "▁▁▁", "o", "n", "▁o", "on"]  # fmt: skip
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{b:02X}>" for b in range(256)), *words]
    kinds = [3, 3, 3, 3, *[6] * 256, *[1] * len(words)]
    return {
        "general.architecture": architecture,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": [-float(i) for i in range(len(tokens))],
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3,
    }
