"""Short ways to write judgements."""

from backend.preferences.judgement import Judgement


def vote(choice, pair="0", prompt=None, a="base", b="tuned", reviewer="ann", left=True, **more):
    """A judgement; the prompt is the pair's unless given."""
    return Judgement(pair, prompt or pair, a, b, choice, reviewer, left, **more)


def votes(choices, **same):
    """One judgement a choice, each of its own pair and prompt."""
    short = {"a": "a", "b": "b", "t": "tie", "x": "both_bad"}
    return [vote(short[choice], pair=str(number), **same) for number, choice in enumerate(choices)]
