"""Names -> running parts: the only file that knows every concrete class.

`load` opens a model by name, path or hub id; `wrap` takes one in memory. Both end in a `Model`.
"""

import logging
import os
import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from outpace.api import Model
from outpace.control.auto import AutoControl
from outpace.control.cost import CostTable
from outpace.control.limits import OFF, Control, FixedControl, Limits
from outpace.control.profile import Shape, profile
from outpace.core.score import Runtime
from outpace.drafters.registry import Context, Loaded, check_names, hidden_layers, make
from outpace.errors import ConfigError, ModelUnsupported
from outpace.models.catalog import AcceptTerms
from outpace.models.fetch import Progress
from outpace.models.files import ModelFiles
from outpace.models.lineage import target_digest
from outpace.models.pull import default_cache_dir
from outpace.models.resolve import resolve
from outpace.models.weights import open_weights
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer
from outpace.text.vocabulary import Vocabulary

_LOG = logging.getLogger(__name__)

MAX_THREADS = 1024
RUNTIMES = ("auto", "native", "transformers")
# How long a load may spend measuring what passes cost.
PROFILE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeChoice:
    """How to run weights: which runtime, weight format, device and CPU threads.

    "auto" decides; threads None = all this process may use. weights: fp32, bf16, q8, q4,
    q8-fine or q4-fine for native; float32, bfloat16 or float16 for transformers. hidden_layers:
    residual streams that the native runtime returns, after that many layers.

    Raises:
        ConfigError: no such runtime, or an impossible number of threads.
    """

    runtime: str = "auto"
    weights: str = "auto"
    device: str = "auto"
    threads: int | None = None
    hidden_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise ConfigError(f"threads is {self.threads}; allowed: 1 to {MAX_THREADS}")
        if self.runtime not in RUNTIMES:
            raise ConfigError(f"runtime {self.runtime!r}; allowed: {', '.join(RUNTIMES)}")


def load(
    ref: str,
    *,
    drafter: str = "auto",
    others: Seq[str] = (),
    choice: RuntimeChoice | None = None,
    limits: Limits | None = None,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    accept_terms: AcceptTerms = False,
) -> Model:
    """Open a model.

    ref: catalog name, directory, GGUF file or hub id. drafter: a registered name, see
    `outpace.drafters.registry`. others: what `Model.engine_with` will be asked for (a trained head
    needs a model opened for it). limits: most guesses per round, in place of the control.
    cache_dir: in place of OUTPACE_CACHE and the platform's cache folder.

    Raises:
        ConfigError: which of its kinds says what is wrong and what to do.
    """
    began = time.perf_counter()
    choice = choice or RuntimeChoice()
    check_names(drafter, *others)
    _use_threads(choice.threads)
    opener = Opener(
        choice=choice,
        cache_dir=cache_dir or default_cache_dir(os.environ),
        progress=progress,
        accept_terms=accept_terms,
    )
    files = opener.files(ref)
    tokenizer = open_tokenizer(files)
    runtime = opener.for_drafters((drafter, *others), files).runtime(files, tokenizer)
    context = Context(
        target=runtime.traits,
        vocabulary=Vocabulary(tokenizer, runtime.traits.vocab_size),
        load=cache(opener.draft),
        compile_head=getattr(runtime, "compile_head", None),
    )
    return Model(
        name=files.name,
        runtime=runtime,
        drafter=make(drafter, context),
        tokenizer=tokenizer,
        template=template_of(tokenizer),
        make_control=Controls(runtime, limits),
        load_s=time.perf_counter() - began,
        make_drafter=partial(make, context=context),
    )


def wrap(
    model: Any,  # a transformers model; naming its class would import the library
    tokenizer: Any,
    *,
    drafter: str = "auto",
    limits: Limits | None = None,
    name: str = "wrapped",
) -> Model:
    """Take a transformers model and its fast tokenizer that are already in memory.

    The model is put into evaluation mode, else neither is changed. A `model:REF` drafter runs
    through transformers too.

    Raises:
        ModelUnsupported: the model's cache cannot forget; the message names the layer kind.
    """
    from outpace.runtimes.transformers import TransformersRuntime

    own = Tokenizer.wrap(tokenizer)
    runtime = TransformersRuntime.wrap(model, eos_ids=own.eos_ids)

    opener = Opener(
        choice=RuntimeChoice(runtime="transformers"), cache_dir=default_cache_dir(os.environ)
    )
    context = Context(
        target=runtime.traits,
        vocabulary=Vocabulary(own, runtime.traits.vocab_size),
        load=cache(opener.draft),
    )
    return Model(
        name=name,
        runtime=runtime,
        drafter=make(drafter, context),
        tokenizer=own,
        template=template_of(own),
        make_control=Controls(runtime, limits),
        make_drafter=partial(make, context=context),
    )


class Controls:
    """Makes controls for one runtime, whose costs are measured once, when first needed.

    limits: always these, in place of a control that measures what guessing pays.
    """

    def __init__(self, runtime: Runtime, limits: Limits | None) -> None:
        self._runtime, self._limits = runtime, limits
        self._shape: Shape | None = None

    def __call__(self, drafter: str, limits: Limits | None) -> Control:
        fixed = limits or self._limits or (OFF if drafter == "none" else None)
        if fixed is not None:
            return FixedControl(fixed)
        if self._shape is None:
            self._shape = profile(self._runtime, PROFILE_S, time.perf_counter)
        return AutoControl(CostTable(self._shape), drafter=drafter)


def open_tokenizer(files: ModelFiles) -> Tokenizer:
    """The tokenizer that belongs to a model's files."""
    if files.kind == "gguf":
        return Tokenizer.from_gguf(open_weights(files).gguf)
    return Tokenizer.from_folder(files.root)


def template_of(tokenizer: Tokenizer) -> ChatTemplate | None:
    """The model's chat template, None where it has none."""
    if not tokenizer.template:
        return None
    bos, eos = tokenizer.bos_id, tokenizer.eos_id
    return ChatTemplate(
        tokenizer.template,
        bos_token=tokenizer.token(bos) or "" if bos is not None else "",
        eos_token=tokenizer.token(eos) or "" if eos is not None else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """Opens models the way one `load` was asked to: targets, and drafts beside them."""

    choice: RuntimeChoice
    cache_dir: Path
    progress: Progress | None = None
    accept_terms: AcceptTerms = False

    def files(self, ref: str) -> ModelFiles:
        """Find a model's files, fetching them where needed."""
        return resolve(
            ref,
            cache_dir=self.cache_dir,
            progress=self.progress,
            accept_terms=self.accept_terms,
        )

    def for_drafters(self, drafters: Seq[str], files: ModelFiles) -> "Opener":
        """The same, but that targets return the hidden states these drafters read."""
        digest = target_digest(files, cache_dir=self.cache_dir)
        layers = self.choice.hidden_layers or hidden_layers(drafters, digest)
        return replace(self, choice=replace(self.choice, hidden_layers=layers))

    def runtime(self, files: ModelFiles, tokenizer: Tokenizer) -> Runtime:
        """Native where it can, else transformers, saying why.

        Raises:
            ModelUnsupported: the runtime that was asked for cannot run this model.
        """
        if self.choice.runtime != "transformers":
            try:
                return self._native(files, tokenizer)
            except ModelUnsupported as error:
                if self.choice.runtime == "native":
                    raise
                _LOG.warning("the transformers runtime takes over: %s", error)
        from outpace.runtimes.transformers_load import open_runtime

        return open_runtime(
            files,
            dtype=self.choice.weights,
            device="cpu" if self.choice.device == "auto" else self.choice.device,
            eos_ids=tokenizer.eos_ids,
            cache_dir=self.cache_dir,
        )

    def draft(self, ref: str) -> Loaded:
        """A model opened to guess."""
        files = self.files(ref)
        tokenizer = open_tokenizer(files)
        runtime = self.runtime(files, tokenizer)
        return Loaded(runtime=runtime, vocabulary=Vocabulary(tokenizer, runtime.traits.vocab_size))

    def _native(self, files: ModelFiles, tokenizer: Tokenizer) -> Runtime:
        from outpace.runtimes.native.load import Wish, load_decoder
        from outpace.runtimes.native.runtime import NativeRuntime

        loaded = load_decoder(
            files,
            Wish(
                weights=self.choice.weights,
                device=self.choice.device,
                threads=self.choice.threads,
                hidden_layers=self.choice.hidden_layers,
            ),
        )
        _LOG.info("%s: %s", files.name, loaded.description)
        digest = f"{target_digest(files, cache_dir=self.cache_dir)}-{loaded.identity}"
        return NativeRuntime(
            loaded.decoder,
            vocab_size=loaded.spec.vocab_size,
            context_tokens=loaded.spec.context_tokens,
            eos_ids=tokenizer.eos_ids,
            digest=digest,
            n_hidden=loaded.n_hidden,
        )


def _use_threads(n: int | None) -> None:
    if n is not None:
        import torch

        torch.set_num_threads(n)


def runtime_facts() -> dict[str, str]:
    """What `outpace doctor` says of the runtimes."""
    from outpace.runtimes.native.compiled import available
    from outpace.runtimes.native.spec.config import FAMILIES

    kernels, why = available()
    return {
        "native": f"{', '.join(FAMILIES)}; {'compiled' if kernels else 'torch only'} ({why})",
        "transformers": "any causal model whose cache can forget",
    }
