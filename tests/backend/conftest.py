import pytest

from backend import config

SMALL = [
    "steps=4",
    "sampling.steps=4",
    "sampling.evaluation_steps=4",
    "method.split_steps=[0,1]",
    "prompts.per_step=2",
    "evaluation.limit=6",
    "evaluation.seeds=[1]",
    "evaluation.shown=6",
    "logging.tree_every=2",
    "logging.samples_every=2",
]


@pytest.fixture
def small():
    """A four-step run of the default preset on a small grid, with more overrides if given."""
    return lambda *more: config.load(config.preset_path("shapes-branchgrpo"), [*SMALL, *more])
