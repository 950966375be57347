"""A tiny model that writes words: a table over a few of them, with a tokenizer to match."""

from collections.abc import Sequence as Seq

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from outpace.api import Model
from outpace.control.limits import FixedControl, Limits
from outpace.core.draft import Ask
from outpace.drafters.registry import Context, make
from outpace.runtimes.toy import Table, TableRuntime, random_table
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
WORDS = (
    " one", " two", " three", " four", " five", " six", " seven", " eight", " ha", "ha", ", ",
    ".\n", " café", " 東京", "\U0001f600",
)  # fmt: skip
EOS = "<end>"


def word_backend(more: Seq[str] = ()) -> Backend:
    """Bytes, the words as merged tokens, and an end of text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    merges: list[tuple[str, str]] = []
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for word in WORDS:
        ((spelled, _),) = cut.pre_tokenize_str(word)
        for end in range(2, len(spelled) + 1):
            whole, left, right = spelled[:end], spelled[: end - 1], spelled[end - 1]
            if whole not in vocabulary:
                vocabulary[whole] = len(vocabulary)
                merges.append((left, right))
    backend = Backend(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([EOS])
    backend.add_tokens(list(more))
    return backend


def worded_table(tokenizer: Tokenizer, vocab_size: int, *, seed: int) -> Table:
    """Likes words, and what depends on the last token; dislikes lone bytes and the end."""
    free = random_table(vocab_size, seed=seed, memory=1, sharpness=2.5)
    liked = [id_ for word in WORDS for id_ in tokenizer.encode(word, special=False)[:1]]

    def table(text: tuple[int, ...]) -> Tensor:
        logits_V = free(text).clone()
        logits_V[liked] += 9
        return logits_V

    return table


def worded_model(
    *, drafter: str = "lookup", template: str = TEMPLATE, context_tokens: int = 512, seed: int = 5
) -> Model:
    """A model of few words that repeats itself, with any drafter, those that peek included."""
    tokenizer = Tokenizer.wrap(word_backend())
    end = tokenizer.id_of(EOS)
    assert end is not None
    table = worded_table(tokenizer, tokenizer.vocab_size, seed=seed)
    runtime = TableRuntime(
        table,
        vocab_size=tokenizer.vocab_size,
        context_tokens=context_tokens,
        eos_ids=frozenset({end}),
    )

    def peek(ask: Ask, path: Seq[int]) -> Tensor:
        return table((*ask.tokens, *path))

    return Model(
        name="words",
        runtime=runtime,
        drafter=make(drafter, Context(target=runtime.traits, peek=peek)),
        tokenizer=tokenizer,
        template=ChatTemplate(template),
        make_control=lambda _, limits: FixedControl(limits or Limits(max_nodes=5, max_depth=5)),
    )
