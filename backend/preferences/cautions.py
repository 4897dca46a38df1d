"""What a reader of a leaderboard should know before believing it."""

from __future__ import annotations

from collections.abc import Iterator

from backend.preferences.standing_record import Standing
from backend.preferences.wilson import SIGNIFICANT

FEW_PROMPTS = 30
LITTLE_AGREEMENT = 0.2


def cautions(standing: Standing) -> list[str]:
    """Sentences, gravest first."""
    if standing.votes == 0:
        return ["There are no votes yet."]
    return [*_about_ratings(standing), *_about_votes(standing)]


def _about_ratings(standing: Standing) -> Iterator[str]:
    if standing.of_one_model == standing.votes:
        yield "All votes compare two samples of one model: they tell better samples from worse, and rate no model."
    labels = {model.key: model.label for model in standing.models}
    for model in standing.models:
        if model.rating is None:
            yield (
                f"{model.label} has no rating: no chain of comparisons leads from it to {labels[standing.base]}. "
                "Have it compared with a model that has one."
            )
    for model in standing.models:
        count = model.outcomes
        if model.rating is not None and model.key != standing.base and (count.wins == 0) != (count.losses == 0):
            bound, word = ("a lower", "lost") if count.losses == 0 else ("an upper", "won")
            yield f"{model.label} never {word}: its rating is {bound} bound."
    if standing.prompts < FEW_PROMPTS:
        yield f"The votes are about {standing.prompts} prompts; below {FEW_PROMPTS} the intervals are rough."


def _about_votes(standing: Standing) -> Iterator[str]:
    sides = standing.sides
    if sides.share is not None and sides.p_value is not None and sides.p_value < SIGNIFICANT:
        yield (
            f"The left side was chosen in {sides.share.value:.0%} of {sides.decided} votes (p = {sides.p_value:.2g}). "
            "Sides are drawn by a coin, so this favours no model, but it blurs the differences."
        )
    if len(standing.reviewers) == 1:
        yield "There is one reviewer: how far people agree is not known."
    elif standing.alpha is not None and standing.alpha < LITTLE_AGREEMENT:
        yield f"Reviewers agree little: Krippendorff's alpha is {standing.alpha:.2f} on {standing.alpha_pairs} pairs."
    for reviewer in standing.reviewers:
        for reason in reviewer.reasons:
            yield f"{reviewer.reviewer} {reason}."
