"""A tiny random Llama with a byte tokenizer, on the native runtime: a whole target to train for."""

import tempfile
from functools import cache, partial
from pathlib import Path

import torch

from outpace.api import Model
from outpace.control.limits import FixedControl, Limits
from outpace.drafters.registry import Context, make
from outpace.models.files import ModelFiles
from outpace.models.resolve import resolve
from outpace.runtimes.native.load import Wish, load_decoder
from outpace.runtimes.native.runtime import NativeRuntime
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer
from outpace.train.target import TargetWeights, read_target
from small import EOS, VOCAB, byte_backend

_TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}a:"


@cache
def tiny_files() -> ModelFiles:
    """Weights on disk, for as long as the tests run."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        tie_word_embeddings=True, rms_norm_eps=1e-5,
    )  # fmt: skip
    made = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.25)
    folder = tempfile.mkdtemp(prefix="outpace-tiny-")
    made.save_pretrained(folder)
    return resolve(folder)


def tiny_weights() -> TargetWeights:
    return read_target(tiny_files(), Path(tempfile.gettempdir()))


def tiny_target() -> Model:
    """The model, returning the hidden states that training reads."""
    weights = tiny_weights()
    wish = Wish(threads=1, hidden_layers=weights.taps, n_pages=256, page_size=16)
    loaded = load_decoder(tiny_files(), wish)
    runtime = NativeRuntime(
        loaded.decoder, vocab_size=VOCAB, context_tokens=512, eos_ids=frozenset({EOS}),
        digest=f"{weights.digest}-{loaded.identity}", n_hidden=loaded.n_hidden,
    )  # fmt: skip
    context = Context(target=runtime.traits)
    return Model(
        name="tiny",
        runtime=runtime,
        drafter=make("none", context),
        tokenizer=Tokenizer.wrap(byte_backend()),
        template=ChatTemplate(_TEMPLATE),
        make_control=lambda _, limits: FixedControl(limits or Limits(max_nodes=8, max_depth=8)),
        make_drafter=partial(make, context=context),
    )
