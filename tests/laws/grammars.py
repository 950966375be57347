"""Cases with a real grammar: tokens a, b, ab and an end, so that one text has several spellings."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from laws.cases import SHAPES, WARM, WAYS
from laws.reference import Allowed, Text
from laws.world import SKILLS, Case
from outpace.core.sampling import Sampling
from outpace.text.grammar import spec
from outpace.text.grammar.compile import Grammars
from outpace.text.grammar.mask import GrammarMask
from outpace.text.grammar.spec import GrammarSpec
from outpace.text.tokenizer import Tokenizer

END, V = 3, 4


@cache
def grammars() -> Grammars:
    """Over the tokens a, b, ab and the end."""
    backend = Backend(models.BPE(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")]))
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<end>"])
    return Grammars(Tokenizer.wrap(backend), vocab_size=V, eos_ids=frozenset({END}))


class Forkable(GrammarMask):
    """A mask that is copied with a world, guesses it has read ahead included."""

    def __deepcopy__(self, memo: dict[int, object]) -> "Forkable":
        twin = Forkable(
            self._compiled, n_words=self._n_words, vocab_size=self._vocab_size, ends=self._ends
        )
        twin._matcher = self._matcher.deep_copy()
        twin._text, twin._ahead = list(self._text), list(self._ahead)
        twin._ended, twin._lost = self._ended, self._lost
        twin._bits, twin._forced = dict(self._bits), dict(self._forced)
        return twin


def forkable(grammar: GrammarSpec) -> Forkable:
    """A mask for a case."""
    made = grammars().mask(grammar)
    return Forkable(made._compiled, n_words=made._n_words, vocab_size=V, ends=made._ends)


def asked_anew(grammar: GrammarSpec) -> Allowed:
    """The reference: a new mask for every text, asked once."""
    known: dict[Text, list[int]] = {}

    def allowed(text: Text) -> list[int]:
        if text not in known:
            mask = grammars().mask(grammar)
            for token in text:
                mask.advance(token)
            known[text] = mask.allowed(()).nonzero().flatten().tolist()
        return known[text]

    return allowed


SPECS: Mapping[str, GrammarSpec] = {
    "one way": spec.choice(["ab"]),
    "choice": spec.choice(["a", "ab", "abb", "ba"]),
    "regex": spec.regex("(ab|ba)*a?"),
    "nested": spec.grammar('start: "a" start "b" | "b"'),
}
# What else the request asks for, by name.
ASKED: Mapping[str, Sampling] = {
    "warm": WARM,
    "cold": Sampling(temperature=0),
    "end held back": replace(WARM, min_tokens=2),
    "end banned": replace(WARM, banned=((END,),)),
    "forced": replace(WARM, forced=(0,)),
    "forced out": replace(WARM, forced=(1, 1)),
    "stop id": replace(WARM, stop_token_ids=frozenset({1})),
    "end ignored": replace(WARM, ignore_eos=True),
    "stop string": replace(WARM, stop=("bb", "aba")),
    "top_k 1, penalised": replace(WARM, top_k=1, frequency_penalty=1.2),
}


def _cases() -> list[Case]:
    cases: list[Case] = []
    for row, (said, sampling) in enumerate(ASKED.items()):
        for column, (name, grammar) in enumerate(SPECS.items()):
            for way, (rule, shape, pick) in enumerate(WAYS):
                if row > 1 and way % 4 != (row + column) % 4:
                    continue  # each of the rest meets every way with one grammar or another
                cases.append(
                    Case(
                        name=f"{name}, {said} {rule} {shape} {pick}",
                        sampling=replace(sampling, rule=rule), shape=SHAPES[shape], pick=pick,
                        skill=SKILLS[(row + column + way) % 3], seed=row + column, vocab_size=V,
                        eos_ids=frozenset({END}), spelled=("a", "b", "ab", ""),
                        allowed=asked_anew(grammar), mask=partial(forkable, grammar),
                    )
                )  # fmt: skip
    return cases


GRAMMAR_CASES = _cases()
