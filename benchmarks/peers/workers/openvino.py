"""OpenVINO GenAI: `LLMPipeline` on the GGUF file, tokens streamed; prompt lookup is its own."""

from collections.abc import Sequence as Seq
from importlib import import_module
from importlib.metadata import version
from typing import Any  # the library's own types are not installed where this is checked

from benchmarks.peers.protocol import Answer, Facts, Setup, Throughput, Watch, serve

# As in its own prompt lookup sample.
_LOOKUP = {"num_assistant_tokens": 5, "max_ngram_size": 3}


class OpenVinoPeer:
    """A pipeline with its default scheduler."""

    def __init__(self, setup: Setup) -> None:
        self._core: Any = import_module("openvino")
        self._numpy: Any = import_module("numpy")
        self._genai: Any = import_module("openvino_genai")
        options: dict[str, object] = {"INFERENCE_NUM_THREADS": setup.threads}
        if setup.speculate:
            options["prompt_lookup"] = True
        self._pipeline: Any = self._genai.LLMPipeline(setup.model, "CPU", **options)
        self._speculates = setup.speculate

    def facts(self) -> Facts:
        """It compresses the file's blocks into its own 4 and 8 bit types."""
        names = ("openvino-genai", "openvino")
        return {
            "versions": {name: version(name) for name in names},
            "weights": "the file's blocks, as its own GGUF reader takes them",
            "speculation": f"prompt lookup {_LOOKUP}" if self._speculates else "none",
        }

    def generate(self, ids: list[int], n: int, *, stop_at_eos: bool) -> Answer:
        """Ends are ignored."""
        if stop_at_eos:
            raise NotImplementedError("this peer is only ever asked for a number of tokens")
        config = self._genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = n, True, False
        if self._speculates:
            config.num_assistant_tokens = _LOOKUP["num_assistant_tokens"]
            config.max_ngram_size = _LOOKUP["max_ngram_size"]
        prompt = self._core.Tensor(self._numpy.array([ids], dtype=self._numpy.int64))
        watch = Watch()
        streamer = self._streamer(watch)
        result = self._pipeline.generate(prompt, config, streamer)
        tokens = list(result.tokens[0])
        watch.saw(len(tokens))
        return watch.answer(tokens)

    def _streamer(self, watch: Watch) -> Any:  # a subclass of the library's StreamerBase
        running = self._genai.StreamingStatus.RUNNING

        class TokenStreamer(self._genai.StreamerBase):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.n = 0

            def write(self, token: int | Seq[int]) -> Any:  # the library's own enumeration
                self.n += 1 if isinstance(token, int) else len(token)
                watch.saw(self.n)
                return running

            def end(self) -> None:
                pass

        return TokenStreamer()

    def batch(self, prompts: list[list[int]], n: int) -> Throughput:
        """Not compared."""
        raise NotImplementedError(f"{len(prompts)} prompts of {n} tokens at once")

    def forget(self) -> None:
        """Nothing is remembered."""


if __name__ == "__main__":
    serve(OpenVinoPeer)
