"""What a head's drafter remembers, and what it guesses from it."""

from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np
import pytest
import torch

from drafters.head.tiny import VOCAB, WIDTH, hidden_after, shows_hidden, tiny_folder, tiny_head
from outpace.core.coins import SeededCoins, gumbel, noise_bits
from outpace.core.draft import Ask, Draft, Seen
from outpace.core.law import TokenMask
from outpace.core.sampling import Sampling
from outpace.drafters import registry
from outpace.drafters.head.drafter import HeadDrafter, HeadOptions
from outpace.drafters.head.steps import NumpySteps, likeliest
from outpace.drafters.mix.drafter import MixDrafter
from outpace.drafters.tree import DearOffers, Offer, Offers
from outpace.errors import CapabilityError, ConfigError, HeadMismatch
from outpace.runtimes.toy import TableRuntime, random_table

TEXT = [3, 5, 8, 2]


def made(options: HeadOptions | None = None) -> HeadDrafter:
    head = tiny_head()
    return HeadDrafter(head, NumpySteps(head), options)


def ask(tokens: Seq[int] = TEXT, *, key: int = 0, nodes: int = 8, seed: int | None = None) -> Ask:
    warm = seed is not None
    return Ask(
        key=key, tokens=tokens, n_prompt=2, max_nodes=nodes, max_depth=4, trees=True,
        style="coupled" if warm else "chosen",
        sampling=Sampling(temperature=0.8, seed=seed) if warm else Sampling(),
        coins=SeededCoins(seed or 0, len(tokens)),
    )  # fmt: skip


def show(drafter: HeadDrafter, text: Seq[int], *, key: int = 0, n_new: int = 1) -> None:
    """Tell it that the last n_new tokens were committed, with the rows before them."""
    rows = [hidden_after(text[:end]) for end in range(len(text) - n_new, len(text))]
    drafter.observe(
        [
            Seen(
                key=key, start=len(text) - n_new, tokens=tuple(text[-n_new:]),
                hidden_RH=torch.stack(rows),
            )
        ]
    )  # fmt: skip


def test_only_the_last_row_matters() -> None:
    one, three = made(), made()
    show(one, TEXT)
    show(three, TEXT, n_new=3)
    assert one.offer(ask()) == three.offer(ask())
    assert len(one.offer(ask()).tokens) > 3


def test_without_the_last_row_it_guesses_nothing() -> None:
    drafter = made()
    assert not drafter.offer(ask()).tokens
    show(drafter, TEXT)
    assert not drafter.offer(ask([*TEXT, 1])).tokens  # a token it was not told of
    assert not drafter.offer(ask(key=1)).tokens
    drafter.observe([Seen(key=0, start=4, tokens=(1,))])  # a target that shows nothing
    assert not drafter.offer(ask([*TEXT, 1])).tokens
    assert drafter.offer(ask()).tokens  # a text that comes back, as preempted ones do
    drafter.forget(0)
    drafter.forget(0)
    assert not drafter.offer(ask()).tokens


def test_a_prompts_pass_without_a_token_is_not_the_last() -> None:
    drafter = made()
    drafter.observe([Seen(key=0, start=3, tokens=(), hidden_RH=torch.zeros(3, WIDTH))])
    assert not drafter.offer(ask(TEXT[:3])).tokens


def test_what_is_remembered_is_not_what_the_target_writes_to_later() -> None:
    drafter = made()
    hidden_RH = hidden_after(TEXT[:-1])[None].clone()
    drafter.observe([Seen(key=0, start=3, tokens=(2,), hidden_RH=hidden_RH)])
    before = drafter.offer(ask())
    hidden_RH.zero_()
    assert drafter.offer(ask()) == before


def test_the_likeliest_comes_first_and_by_its_own_law() -> None:
    drafter, head = made(), tiny_head()
    show(drafter, TEXT)
    offer = drafter.offer(ask())
    row = hidden_after(TEXT[:-1])[None].numpy()
    _, logits = NumpySteps(head).rows(row, np.array([TEXT[-1]]), roots=True)
    place, p = likeliest(logits[0], 1, head.config.greedy_sharpness)[0]
    assert offer.tokens[0] == head.ids_D[place]
    assert offer.chances[0] == pytest.approx(p)
    assert list(offer.chances) == sorted(offer.chances, reverse=True)


def test_a_seeds_first_guess_is_the_heads_own_choice_under_the_shared_noise() -> None:
    """argmax of log q + the noise of the position, over all that can be guessed."""
    drafter, head = made(), tiny_head()
    show(drafter, TEXT)
    row = hidden_after(TEXT[:-1])[None].numpy()
    _, logits = NumpySteps(head).rows(row, np.array([TEXT[-1]]), roots=True)
    firsts = set()
    for seed in range(40):
        noise = gumbel(noise_bits(seed, len(TEXT), head.ids_D.astype(np.uint64)))
        wanted = int(head.ids_D[int((logits[0] / 0.8 + noise).argmax())])
        offer = drafter.offer(ask(seed=seed, nodes=16))
        children = [t for t, p in zip(offer.tokens, offer.parents, strict=True) if p == -1]
        assert wanted in children
        firsts.add(wanted)
    assert len(firsts) > 3


class Odd(TokenMask):
    """Odd tokens only."""

    def allowed(self, guesses: Seq[int]) -> torch.Tensor:
        return torch.arange(VOCAB) % 2 == 1

    def advance(self, token: int) -> None:
        pass


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_what_a_mask_forbids_is_left_out_with_all_below(seed: int | None) -> None:
    drafter = made()
    show(drafter, TEXT)
    asked = ask(seed=seed, nodes=24)
    free, held = drafter.offer(asked), drafter.offer(replace(asked, mask=Odd()))
    assert any(token % 2 == 0 for token in free.tokens)
    assert len(held.tokens) == sum(_odd(free.tokens, free.parents))
    assert held.tokens or seed
    assert all(token % 2 == 1 for token in held.tokens)
    for node, parent in enumerate(held.parents):
        assert -1 <= parent < node


def _odd(tokens: Seq[int], parents: Seq[int]) -> list[bool]:
    """By node: whether it and all above it are odd."""
    odd: list[bool] = []
    for token, parent in zip(tokens, parents, strict=True):
        odd.append(token % 2 == 1 and (parent < 0 or odd[parent]))
    return odd


def test_it_offers_to_many_at_once() -> None:
    drafter = made()
    assert isinstance(drafter, Offers)
    assert isinstance(drafter, DearOffers)
    texts = {0: TEXT, 1: [4, 4, 9], 2: [1, 2, 3, 4, 5]}
    for key, text in texts.items():
        show(drafter, text, key=key)
    asks = [ask(text, key=key) for key, text in texts.items()]
    assert drafter.offers(asks) == [drafter.offer(a) for a in asks]


def context(**traits: object) -> registry.Context:
    table = TableRuntime(random_table(VOCAB, seed=1), vocab_size=VOCAB)
    return registry.Context(target=replace(shows_hidden(table.traits), **traits))  # type: ignore[arg-type]


def test_a_head_belongs_to_one_targets_weights() -> None:
    spec = f"head:{tiny_folder()}"
    assert registry.make(spec, context()).name == spec
    assert registry.make(spec, context(digest="tiny-another format")).name == spec
    with pytest.raises(HeadMismatch, match="outpace train"):
        registry.make(spec, context(digest="other-toy"))
    with pytest.raises(CapabilityError, match="hidden states"):
        registry.make(spec, context(n_hidden=0))
    with pytest.raises(HeadMismatch, match="no head comes"):
        registry.make("head", context(digest="other"))
    with pytest.raises(ConfigError, match="no head can be read"):
        registry.make("head:/nowhere", context())


def test_the_layers_a_drafter_reads_are_known_before_its_target_is_opened() -> None:
    spec = f"head:{tiny_folder()}"
    assert registry.hidden_layers([spec], "x") == (1, 2)
    assert registry.hidden_layers(["none", f"mix:lookup+{spec}", spec], "x") == (1, 2)
    assert registry.hidden_layers(["lookup", "mix:lookup+suffix"], "x") == ()
    assert registry.hidden_layers(["auto"], "no such weights") == ()


def test_hidden_states_of_another_width_are_refused() -> None:
    with pytest.raises(ConfigError, match="width"):
        made().observe([Seen(key=0, start=0, tokens=(1,), hidden_RH=torch.zeros(1, WIDTH + 1))])


class Says:
    """A drafter that is sure, or not, of one token."""

    name = "says"

    def __init__(self, chance: float) -> None:
        self.chance = chance

    def offer(self, ask: Ask) -> Offer:
        return Offer(tokens=[1], parents=[-1], chances=[self.chance], sources=["says"])

    def propose(self, asks: Seq[Ask]) -> list[Draft]:
        return [self.offer(a).draft() for a in asks]

    def observe(self, seen: Seq[Seen]) -> None:
        pass

    def forget(self, key: int) -> None:
        pass


def test_a_mix_asks_a_head_only_where_others_are_not_sure() -> None:
    for chance, sources in ((0.95, {"says"}), (0.2, {"says", "head"})):
        drafter = made()
        show(drafter, TEXT)
        (draft,) = MixDrafter([Says(chance), drafter]).propose([ask(nodes=12)])
        assert set(draft.sources) == sources
        assert (1, -1) in zip(draft.tokens, draft.parents, strict=True)
