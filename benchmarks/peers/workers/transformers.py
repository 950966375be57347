"""transformers: `generate` with a token streamer, bf16; prompt lookup is its own.

With two arguments it converts instead: a GGUF file into a directory that vLLM can read too.

    python -m benchmarks.peers.workers.transformers FILE.gguf DIRECTORY
"""

import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any  # the library's own types are not installed where this is checked

from benchmarks.peers.protocol import Answer, Facts, Setup, Throughput, Watch, serve

_LOOKUP = {"prompt_lookup_num_tokens": 5, "max_matching_ngram_size": 2}


class TransformersPeer:
    """A causal model of the library, in eager mode."""

    def __init__(self, setup: Setup) -> None:
        self._torch: Any = import_module("torch")
        library: Any = import_module("transformers")
        self._torch.set_num_threads(setup.threads)
        self._model: Any = library.AutoModelForCausalLM.from_pretrained(
            setup.model, dtype=self._torch.bfloat16
        ).eval()
        self._model.generation_config.eos_token_id = None
        self._model.generation_config.pad_token_id = 0
        self._options = _LOOKUP if setup.speculate else {}
        self._speculates = setup.speculate

    def facts(self) -> Facts:
        """Weights as converted from the GGUF file."""
        return {
            "versions": {name: version(name) for name in ("transformers", "torch")},
            "weights": "bf16, rounded from the file's blocks",
            "speculation": f"prompt lookup {self._options}" if self._speculates else "none",
        }

    def generate(self, ids: list[int], n: int, *, stop_at_eos: bool) -> Answer:
        """Ends are switched off at load."""
        if stop_at_eos:
            raise NotImplementedError("this peer is only ever asked for a number of tokens")
        prompt = self._torch.tensor([ids])
        watch = Watch()
        out = self._model.generate(
            prompt,
            attention_mask=self._torch.ones_like(prompt),
            max_new_tokens=n,
            do_sample=False,
            streamer=_TokenStreamer(watch),
            **self._options,
        )
        return watch.answer(out[0, len(ids) :].tolist())

    def batch(self, prompts: list[list[int]], n: int) -> Throughput:
        """Not compared."""
        raise NotImplementedError(f"{len(prompts)} prompts of {n} tokens at once")

    def forget(self) -> None:
        """Nothing is remembered."""


class _TokenStreamer:
    """Counts what `generate` streams; the prompt comes first."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._n = -1

    def put(self, value: Any) -> None:  # a tensor of ids
        self._n = 0 if self._n < 0 else self._n + int(value.numel())
        self._watch.saw(self._n)

    def end(self) -> None:
        """Nothing is held back."""


def convert(gguf: Path, folder: Path) -> None:
    """Write the model as safetensors in bf16 beside its tokenizer."""
    torch: Any = import_module("torch")
    library: Any = import_module("transformers")
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    read: Any = library.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
    # What was read from GGUF refuses to be saved; its weights in a model of their own do not.
    config = library.AutoConfig.from_pretrained(**where)
    model: Any = library.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.load_state_dict(read.state_dict())
    library.AutoTokenizer.from_pretrained(**where).save_pretrained(folder)
    model.save_pretrained(folder)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        serve(TransformersPeer)
