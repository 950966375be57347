"""llama-cpp-python: its low-level `generate`, tokens only; prompt lookup is its own."""

import time
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from typing import Any  # the library's own types are not installed where this is checked

from benchmarks.peers.protocol import Answer, Facts, Setup, Throughput, Watch, serve

_CONTEXT_TOKENS = 2048
# Its documentation: 10 by default, 2 where there is only a CPU.
_LOOKUP = {"num_pred_tokens": 2, "max_ngram_size": 2}


class LlamaPeer:
    """A GGUF file as it is."""

    def __init__(self, setup: Setup) -> None:
        library: Any = import_module("llama_cpp")
        speculative: Any = import_module("llama_cpp.llama_speculative")
        draft = speculative.LlamaPromptLookupDecoding(**_LOOKUP) if setup.speculate else None
        self._model: Any = library.Llama(
            setup.model,
            n_ctx=_CONTEXT_TOKENS,
            n_threads=setup.threads,
            n_threads_batch=setup.threads,
            draft_model=draft,
            logits_all=draft is not None,
            verbose=False,
        )
        self._speculates = setup.speculate
        self._system = library.llama_print_system_info().decode()

    def facts(self) -> Facts:
        """The compiled instruction sets are part of what was run."""
        return {
            "versions": {"llama-cpp-python": version("llama-cpp-python")},
            "weights": "the file's own blocks",
            "speculation": f"prompt lookup {_LOOKUP}" if self._speculates else "none",
            "build": self._system,
        }

    def generate(self, ids: list[int], n: int, *, stop_at_eos: bool) -> Answer:
        """The caller decides where a text ends; here, after n tokens."""
        if stop_at_eos:
            raise NotImplementedError("this peer is only ever asked for a number of tokens")
        self._model.reset()  # else a prompt it has just read would cost nothing
        output: list[int] = []
        watch = Watch()
        for token in islice(self._model.generate(ids, temp=0.0), n):
            output.append(token)
            watch.saw(len(output))
        return watch.answer(output)

    def batch(self, prompts: list[list[int]], n: int) -> Throughput:
        """One after the other: the Python package has no batching of its own."""
        began = time.perf_counter()
        n_tokens = sum(len(self.generate(ids, n, stop_at_eos=False).ids) for ids in prompts)
        return Throughput(n_tokens=n_tokens, total_s=time.perf_counter() - began)

    def forget(self) -> None:
        """Nothing is remembered."""


if __name__ == "__main__":
    serve(LlamaPeer)
