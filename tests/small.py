"""A whole model in a few lines: a table runtime and a byte tokenizer, for tests of the surface."""

from functools import partial

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from outpace.api import Model
from outpace.control.limits import FixedControl, Limits
from outpace.drafters.registry import Context, make
from outpace.runtimes.toy import TableRuntime, random_table
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer

EOS = 256
VOCAB = 257


def byte_backend() -> Backend:
    """One token per byte, and an end-of-text token."""
    letters = pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {letter: i for i, letter in enumerate(sorted(letters))}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<end>"])
    return backend


def small_model(
    *, drafter: str = "lookup", context_tokens: int = 400, template: bool = True, seed: int = 3
) -> Model:
    """A model whose text repeats enough for `lookup` to guess some of it."""
    table = random_table(VOCAB, seed=seed, memory=1, sharpness=4.0)
    runtime = TableRuntime(
        table, vocab_size=VOCAB, context_tokens=context_tokens, eos_ids=frozenset({EOS})
    )
    source = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}assistant:"
    return Model(
        name="small",
        runtime=runtime,
        drafter=make(drafter, Context(target=runtime.traits)),
        tokenizer=Tokenizer.wrap(byte_backend()),
        template=ChatTemplate(source) if template else None,
        make_control=lambda _, limits: FixedControl(limits or Limits(max_nodes=8, max_depth=8)),
        make_drafter=partial(make, context=Context(target=runtime.traits)),
    )
