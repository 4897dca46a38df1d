"""The pairs of a review set that votes decide: what is trained on, and what learned rewards are fitted to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from backend.preferences.archive import Archive, ArchivedPair


@dataclass(frozen=True)
class DecidedPair:
    """better and worse are pictures as the archive names them; votes_for and votes_against count first views."""

    prompt: str
    better: str
    worse: str
    votes_for: int
    votes_against: int


@dataclass(frozen=True)
class Decided:
    """left_out: how many pairs are not among them, by the reason in words."""

    pairs: tuple[DecidedPair, ...]
    left_out: dict[str, int]

    @property
    def votes(self) -> int:
        """Votes that call one of the two better."""
        return sum(pair.votes_for + pair.votes_against for pair in self.pairs)


def decided(archive: Archive) -> Decided:
    """One entry a pair: the sample that most of its overall votes call better.

    Ties, "both bad" and skips call none better, and neither does a second view of a pair. A pair is left out where no
    vote chooses, where as many choose one as the other, and where it cannot be learned from: videos, equal pictures.
    """
    chosen = [Counter[str]() for _ in archive.pairs]
    answered = [0] * len(archive.pairs)
    for shown in archive.showings:
        for vote in shown.votes:
            if vote.undone_at is not None or vote.choice == "skip":
                continue
            answered[shown.pair] += 1
            if vote.choice in ("left", "right"):
                chosen[shown.pair]["a" if (vote.choice == "left") == shown.a_is_left else "b"] += 1
    pairs, left_out = [], Counter[str]()
    for pair, votes, count in zip(archive.pairs, chosen, answered, strict=True):
        if pair.repeat_of is not None:
            continue
        reason = _why_not(pair, votes, count)
        if reason:
            left_out[reason] += 1
        else:
            pairs.append(_decided(pair, votes))
    return Decided(tuple(pairs), dict(left_out))


def _why_not(pair: ArchivedPair, votes: Counter[str], answered: int) -> str:
    if pair.kind != "image":
        return "video"
    if pair.image_a == pair.image_b:
        return "equal pictures"
    if not answered:
        return "no vote"
    if not votes:
        return "tie or both bad"
    return "as many votes for one as for the other" if votes["a"] == votes["b"] else ""


def _decided(pair: ArchivedPair, votes: Counter[str]) -> DecidedPair:
    better, worse = (pair.image_a, pair.image_b) if votes["a"] > votes["b"] else (pair.image_b, pair.image_a)
    return DecidedPair(pair.prompt, better, worse, max(votes["a"], votes["b"]), min(votes["a"], votes["b"]))
