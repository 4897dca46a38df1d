"""Negative prompts beside prompts: that they reach the sampler, and what a run says of them."""

import json

import pytest
import torch

from backend import evaluate, negative_prompts
from backend.events import RunStarted
from backend.train import Clock, Trainer, train

ROWS = [{"prompt": "a red circle", "negative_prompt": "a blue square"}, {"prompt": "a red circle"}]
LORA = "model.tuning={kind: lora, rank: 4, alpha: 8}"


def written(folder, rows, name="prompts.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def on(small, file, *more):
    """A short run on the prompts of a file, which evaluate it, too."""
    source = f"prompts={{source: file, path: {file}, per_step: 2}}"
    return small(LORA, source, f"evaluation.prompts={file}", "evaluation.shown=0", "steps=1", *more)


def leaves(config, folder):
    policy = config.model.load(torch.device("cpu"), config.seed)
    return Trainer(config, folder, policy, emit=lambda event: None).roll_out(0, Clock()).states[-1]


@pytest.mark.parametrize(("guidance", "used"), [(3.0, True), (1.0, False)])
def test_a_rollout_leads_away_from_the_prompts_own_where_it_is_guided(small, tmp_path, guidance, used):
    file, guided = written(tmp_path, ROWS), f"model.guidance={guidance}"
    config, plain = on(small, file, guided), on(small, written(tmp_path, [ROWS[1]] * 2, "plain.jsonl"), guided)
    batch = config.prompts.batch(config.seed, 0)
    moved = (leaves(config, tmp_path) - leaves(plain, tmp_path)).abs().amax((1, 2, 3, 4))
    assert [bool(one > 0.1) for one in moved] == [used and one.negative_prompt is not None for one in batch]
    assert min(moved) < 1e-4  # the prompt without its own


def test_an_evaluation_leads_away_from_the_prompts_own(small, tmp_path):
    config = on(small, written(tmp_path, ROWS), "model.guidance=3")
    items = evaluate.items_of(config)
    assert [one.negative_prompt for one in items] == ["a blue square", None]
    policy = config.model.load(torch.device("cpu"), config.seed)
    found = evaluate.generate(policy, items, config)
    texts = [one.prompt for one in items]
    places = [evaluate.generator(one.seed, one.prompt_index) for one in items]
    grid = evaluate.ode_plan(config.evaluation_grid())
    plain = policy.decode(evaluate.sample(policy, texts, grid, places).states[-1][:, 0])
    moved = (found - plain).abs().amax((1, 2, 3, 4))
    assert moved[0] > 0.1
    assert moved[1] < 0.01


def test_a_run_says_whether_it_uses_them(small, tmp_path):
    file = written(tmp_path, ROWS)
    counted = "1 of 2 training prompts and 1 of 2 evaluation prompts have their own; "
    for guidance, told in (
        (3, "guidance leads away from them"),
        (1, "not used: sampled without classifier-free guidance"),
    ):
        config = on(small, file, f"model.guidance={guidance}")
        assert negative_prompts.facts(config) == {"negative prompts": counted + told}
    seen = []
    assert train(config, tmp_path, seen.append, lambda: False, resume=False) == "done"
    started = next(one for one in seen if isinstance(one, RunStarted))
    assert started.facts["negative prompts"] == counted + told
    assert "sha256" in started.facts["prompts"]


def test_flux_is_guided_by_no_second_pass_and_says_so(small, tmp_path):
    config = on(small, written(tmp_path, ROWS), "model={family: flux, guidance: 3.5}")
    assert negative_prompts.facts(config)["negative prompts"].endswith(
        "; not used: sampled without classifier-free guidance"
    )


def test_a_run_without_any_says_nothing(small, tmp_path):
    assert negative_prompts.facts(small()) == {}
    assert negative_prompts.facts(on(small, written(tmp_path, [ROWS[1]]), "prompts.per_step=1")) == {}


def test_of_a_run_on_stored_groups_only_the_evaluation_is_sampled(small, tmp_path):
    config = on(small, written(tmp_path, ROWS), "model.guidance=3").model_copy(update={"groups": "groups"})
    told = "1 of 2 evaluation prompts have their own; guidance leads away from them"
    assert negative_prompts.facts(config) == {"negative prompts": told}


def test_the_command_that_evaluates_says_it_beside_its_report(tmp_path, capsys):
    arguments = ["--base", "shapes", "--prompts", str(written(tmp_path, ROWS)), "--seed", "0", "--json"]
    assert evaluate.main([*arguments, "--set", "sampling.evaluation_steps=2"]) == 0
    told = capsys.readouterr()
    assert "negative prompts: 1 of 2 evaluation prompts have their own; not used: sampled without" in told.err
    assert json.loads(told.out)["num_prompts"] == 2
