"""Files -> a decoder: reads the spec, picks backend and format, counts bytes, then loads.

loaded = load_decoder(resolve("smollm2-135m"))
loaded.decoder.forward(...); loaded.decoder.close(); print(loaded.description)
"""

from collections import Counter
from dataclasses import dataclass

import torch

from outpace.errors import CapabilityError, ConfigError
from outpace.models.files import ModelFiles
from outpace.models.weights import Weights, open_weights
from outpace.runtimes.native import compiled, memory
from outpace.runtimes.native.eager.decoder import TorchDecoder
from outpace.runtimes.native.eager.matrices import Reader
from outpace.runtimes.native.formats import Backend, Choice, Format, choose_format, matrix_types
from outpace.runtimes.native.passes import Decoder
from outpace.runtimes.native.spec.model import ModelSpec
from outpace.runtimes.native.spec.names import Names
from outpace.runtimes.native.spec.read import read_spec

DEFAULT_PAGE_SIZE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A decoder ready for passes, and what it is.

    identity: what, beside the files, decides the numbers: backend and weight format; it belongs
    into the digest. description: the same for a human, with reasons and bytes. n_hidden: width of
    `PassResult.hidden_RH`, 0 = none.
    """

    decoder: Decoder
    spec: ModelSpec
    backend: Backend
    format: Format
    identity: str
    description: str
    weight_bytes: int
    kv_bytes_per_token: int
    n_hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How to load. n_pages None = as memory allows, up to a few whole contexts.

    weights: auto or a name of `formats`. device: auto, cpu, cuda, cuda:N. backend: auto, compiled,
    torch. threads: of the compiled kernels, None = all this process may use (torch has its own
    setting). hidden_layers: residual streams to return, after that many layers.
    """

    weights: str = "auto"
    device: str = "auto"
    backend: str = "auto"
    n_pages: int | None = None
    page_size: int = DEFAULT_PAGE_SIZE
    threads: int | None = None
    hidden_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.backend not in ("auto", "compiled", "torch"):
            raise ConfigError(f"backend {self.backend!r}; allowed: auto, compiled, torch")
        if self.page_size < 1 or (self.n_pages is not None and self.n_pages < 1):
            raise ConfigError(f"{self.n_pages} pages of {self.page_size}; both must be 1 or more")


def load_decoder(files: ModelFiles, wish: Wish | None = None) -> Loaded:
    """Open a model for passes.

    Raises:
        ModelUnsupported: nothing here can run it (or not with the backend asked for).
        ModelCorrupt: a header or a shape that cannot be.
        MemoryShort: too little memory, found before loading; the numbers are attributes.
        ConfigError: a wish that means nothing; CapabilityError: one this machine cannot fulfil.
    """
    wish = wish or Wish()
    weights = open_weights(files)
    spec, names = read_spec(weights)
    _check_layers(wish, spec)
    device = _device(wish.device)
    backend, why_backend = _backend(wish, spec, weights, device)
    types = matrix_types(weights, names, spec)
    choice = choose_format(wish.weights, types, backend=backend, device=device)
    free = memory.free_memory_bytes(device)
    n_pages = wish.n_pages
    if n_pages is None:
        bare = memory.needs(spec, types, choice.format, n_slots=0)
        n_pages = memory.auto_pages(
            spec, bare, free, page_size=wish.page_size, weight_format=choice.format
        )
    need = memory.needs(spec, types, choice.format, n_slots=n_pages * wish.page_size)
    memory.check_fits(need, free, weight_format=choice.format)
    opened = _Opened(weights=weights, names=names, spec=spec, choice=choice, device=device)
    n_hidden = spec.hidden * len(wish.hidden_layers)
    decoder, counts = opened.decoder(backend, wish, n_pages)
    return _loaded(decoder, opened, backend, why_backend, counts, n_hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    weights: Weights
    names: Names
    spec: ModelSpec
    choice: Choice
    device: str

    def decoder(
        self, backend: Backend, wish: Wish, n_pages: int
    ) -> tuple[compiled.CompiledDecoder | TorchDecoder, Counter[str]]:
        if backend == "compiled":
            packer = compiled.Packer(self.weights, self.names, self.spec, self.choice)
            decoder = compiled.open_compiled(
                packer,
                n_pages=n_pages,
                page_size=wish.page_size,
                n_threads=wish.threads,
                hidden_layers=wish.hidden_layers,
            )
            return decoder, Counter(matrix.format.name for matrix in packer.matrices)
        device = torch.device(self.device)
        reader = Reader(self.weights, self.names, self.spec, self.choice.format, device)
        torch_decoder = TorchDecoder(
            reader, n_pages=n_pages, page_size=wish.page_size, hidden_layers=wish.hidden_layers
        )
        return torch_decoder, reader.counts


def _loaded(
    decoder: compiled.CompiledDecoder | TorchDecoder,
    opened: _Opened,
    backend: Backend,
    why_backend: str,
    counts: Counter[str],
    n_hidden: int,
) -> Loaded:
    choice = opened.choice
    per_token = memory.kv_bytes_per_token(opened.spec, choice.format)
    tensors = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
    pool = per_token * decoder.n_pages * decoder.page_size
    return Loaded(
        decoder=decoder,
        spec=opened.spec,
        backend=backend,
        format=choice.format,
        identity=f"{backend} {choice.name}",
        description=(
            f"{opened.spec.family}, {backend} ({why_backend}), weights {choice.name} "
            f"({choice.reason}: {tensors}), {decoder.weight_bytes / 1e6:.0f} MB; keys and values "
            f"{per_token} bytes a token, {decoder.n_pages} pages of {decoder.page_size}, "
            f"{pool / 1e6:.0f} MB"
        ),
        weight_bytes=decoder.weight_bytes,
        kv_bytes_per_token=per_token,
        n_hidden=n_hidden,
    )


def _check_layers(wish: Wish, spec: ModelSpec) -> None:
    wrong = [i for i in wish.hidden_layers if not 0 <= i <= spec.n_layers]
    if wrong:
        raise CapabilityError(
            f"hidden states after layers {wrong}: this model has layers 0 to {spec.n_layers}"
        )


def _device(asked: str) -> str:
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if not torch.cuda.is_available():
        raise CapabilityError(f"device {asked!r}: torch sees no CUDA device here; use cpu")
    return "cuda" if asked == "auto" else asked


def _backend(wish: Wish, spec: ModelSpec, weights: Weights, device: str) -> tuple[Backend, str]:
    if wish.backend == "torch":
        return "torch", "asked for"
    able, why = compiled.available()
    problem = compiled.refusal(spec, weights, page_size=wish.page_size)
    if device != "cpu":
        able, why = False, f"the compiled kernels run on a CPU, not on {device}"
    if wish.backend == "compiled":
        if not able or problem is not None:
            raise CapabilityError(f"backend compiled: {problem or why}; use auto or torch")
        return "compiled", "asked for"
    if able and problem is None:
        return "compiled", "the fast path of this machine"
    return "torch", problem or why
