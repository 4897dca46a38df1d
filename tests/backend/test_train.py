"""The loop on the bundled base: what it emits, exact resume, stops and failures."""

import itertools
import json

import pytest
import torch

from backend import checkpoint, events, train, train_command
from backend.device import pick
from backend.evaluate import Evaluated, items_of
from backend.events import (
    CheckpointSaved,
    EvaluationDone,
    RunEnded,
    RunStarted,
    SamplesSaved,
    StepDone,
    TreeDrawn,
)
from tests.backend.rewards.http_server import serving

LORA = "model.tuning={kind: lora, rank: 4, alpha: 8}"


def run(config, folder, stop=lambda: False, resume=False):
    folder.mkdir(exist_ok=True)
    seen = []
    outcome = train.train(config, folder, seen.append, stop, resume)
    return outcome, seen


def trained(folder, step):
    from safetensors.torch import load_file

    return load_file(folder / f"checkpoint-{step}" / checkpoint.WEIGHTS)


def test_a_run_for_so_many_seconds_ends_like_any_other(small, tmp_path):
    seen = []
    assert train.train(small(), tmp_path, seen.append, lambda: False, resume=False, budget=train.Budget(1e-3)) == "done"
    assert [one.step for one in seen if isinstance(one, StepDone)] == [1]
    assert [one.step for one in seen if isinstance(one, EvaluationDone)] == [0, 1]
    assert [one.path for one in seen if isinstance(one, CheckpointSaved)] == ["checkpoint-1"]
    assert (seen[-1].step, seen[-1].outcome) == (1, "done")


def test_a_budget_is_counted_by_its_own_timer(small, tmp_path):
    ticks, seen = itertools.count(), []
    budget = train.Budget(15.0, lambda: float(next(ticks)))
    assert train.train(small(), tmp_path, seen.append, lambda: False, resume=False, budget=budget) == "done"
    times = [one.metrics["time/step"] for one in seen if isinstance(one, StepDone)]
    assert all(time == int(time) > 0 for time in times)
    assert sum(times[:-1]) < 15 <= sum(times)


def test_a_run_tells_its_whole_story(small, tmp_path):
    outcome, seen = run(small(), tmp_path)
    assert outcome == "done"
    kinds = [type(one) for one in seen]
    assert kinds[0] is RunStarted
    assert kinds[-1] is RunEnded
    assert [one.step for one in seen if isinstance(one, StepDone)] == [1, 2, 3, 4]
    assert [one.step for one in seen if isinstance(one, EvaluationDone)] == [0, 4]
    assert [(one.collection, one.step, len(one.samples)) for one in seen if isinstance(one, SamplesSaved)] == [
        ("test", 0, 6), ("fixed", 0, 6), ("fixed", 2, 6), ("fixed", 4, 6), ("test", 4, 6),
    ]  # fmt: skip
    assert [one.path for one in seen if isinstance(one, CheckpointSaved)] == ["checkpoint-4"]
    for one in seen:
        assert events.parse(one.model_dump_json()) == one


def test_the_tree_grows_and_ends_with_credit(small, tmp_path):
    _, seen = run(small(), tmp_path)
    first = [one for one in seen if isinstance(one, TreeDrawn) and one.step == 1]
    assert [one.level for one in first] == [0, 1, 4]
    whole = first[-1]
    assert [len(level) for level in whole.parents] == [2, 4, 4, 4]
    assert [len(level) for level in whole.values] == [1, 2, 4, 4, 4]
    assert whole.logps[-1] == [None] * 4
    assert len(whole.rewards) == 4
    assert whole.sprite.nodes == [(0, 0), (1, 0), (1, 1), (4, 0), (4, 1), (4, 2), (4, 3)]
    assert (tmp_path / whole.sprite.media.path).stat().st_size == whole.sprite.media.bytes


def test_first_update_has_ratio_exactly_one(small, tmp_path):
    _, seen = run(small("steps=1"), tmp_path)
    metrics = next(one.metrics for one in seen if isinstance(one, StepDone))
    assert metrics["train/ratio_mean"] == 1.0
    assert metrics["train/clipfrac"] == 0.0
    assert metrics["train/approx_kl"] == 0.0


@pytest.mark.parametrize("tuning", ["model.tuning={kind: full}", LORA])
@pytest.mark.parametrize("ema", [None, 0.9])
def test_four_steps_equal_two_and_a_resume_and_two(small, tmp_path, tuning, ema):
    more = [tuning, f"optimizer.ema_decay={ema or 'null'}", "optimizer.warmup=3"]
    config = small(*more)
    assert run(config, tmp_path / "whole")[0] == "done"

    done = []
    stop_after_two = lambda: len(done) >= 2  # noqa: E731
    folder = tmp_path / "parts"
    folder.mkdir()

    def emit(event):
        if isinstance(event, StepDone):
            done.append(event)

    assert train.train(config, folder, emit, stop_after_two, resume=False) == "stopped"
    assert checkpoint.latest(folder).name == "checkpoint-2"
    outcome, seen = run(config, folder, resume=True)
    assert outcome == "done"
    assert next(one for one in seen if isinstance(one, RunStarted)).start_step == 2

    whole, parts = trained(tmp_path / "whole", 4), trained(folder, 4)
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def once(kind, step, seen):
    """Asked to stop as soon as an event of this kind and step has come, which is before the evaluation after it."""
    return lambda: any(isinstance(one, kind) and one.step == step for one in seen)


def test_a_stop_in_an_evaluation_on_the_way_saves_the_steps_before_it(small, tmp_path):
    seen = []
    config = small("evaluation.every=3")
    stop = once(StepDone, 3, seen)
    assert train.train(config, tmp_path, seen.append, stop, resume=False) == "stopped"
    assert checkpoint.latest(tmp_path).name == "checkpoint-3"


def test_an_evaluation_that_was_cut_off_is_made_up_for(small, tmp_path):
    seen = []
    stop = once(CheckpointSaved, 4, seen)
    assert train.train(small(), tmp_path, seen.append, stop, resume=False) == "stopped"
    assert [one.step for one in seen if isinstance(one, EvaluationDone)] == [0]
    outcome, more = run(small(), tmp_path, resume=True)
    assert outcome == "done"
    assert [one.step for one in more if isinstance(one, EvaluationDone)] == [4]


def test_saving_a_step_again_replaces_it_whole(small, tmp_path):
    run(small(), tmp_path)
    before = trained(tmp_path, 4)
    policy = small().model.load(pick(), 0)
    optimizer = torch.optim.AdamW(policy.tuned.parameters())
    checkpoint.resume(tmp_path / "checkpoint-4", policy, torch.optim.AdamW(policy.tuned.parameters()), None)
    checkpoint.save(tmp_path, 4, policy, optimizer, None, "name: again\n")
    assert checkpoint.latest(tmp_path).name == "checkpoint-4"
    assert all(torch.equal(before[name], value) for name, value in trained(tmp_path, 4).items())
    assert [path.name for path in tmp_path.glob(".checkpoint-*")] == []


def test_a_torn_checkpoint_is_passed_over(small, tmp_path):
    run(small("logging.checkpoint_every=2"), tmp_path)
    newest = tmp_path / "checkpoint-4" / checkpoint.WEIGHTS
    newest.write_bytes(newest.read_bytes()[:-10])
    assert checkpoint.latest(tmp_path).name == "checkpoint-2"
    with pytest.raises(ValueError, match="incomplete or changed"):
        checkpoint.load_weights(tmp_path / "checkpoint-4", small().model.load(pick(), 0))


def test_weights_of_another_model_are_refused(small, tmp_path):
    run(small("steps=1", LORA), tmp_path)
    with pytest.raises(ValueError, match="other weights"):
        checkpoint.load_weights(tmp_path / "checkpoint-1", small("model.tuning={kind: full}").model.load(pick(), 0))


def test_a_nan_stops_the_run_and_says_where(small, tmp_path, monkeypatch):
    original = train.Trainer.roll_out

    def poisoned(self, step, clock, recorder=None):
        rollout = original(self, step, clock, recorder)
        if step == 1:
            with torch.no_grad():
                next(iter(self.policy.trained().values())).fill_(float("nan"))
        return rollout

    monkeypatch.setattr(train.Trainer, "roll_out", poisoned)
    outcome, seen = run(small("logging.checkpoint_every=1"), tmp_path)
    assert outcome == "failed"
    ended = seen[-1]
    assert "gradient norm became NaN" in ended.what
    assert "step 1" in ended.what
    assert "checkpoint-1" in ended.what


def test_the_command_trains_and_refuses_to_overwrite(small, tmp_path, capsys):
    from backend.config import dump

    file = tmp_path / "c.yaml"
    file.write_text(dump(small("steps=1")))
    out = tmp_path / "run"
    assert train_command.main([str(file), "--out", str(out)]) == 0
    assert json.loads((out / "events.jsonl").read_text().splitlines()[-1])["outcome"] == "done"
    assert train_command.main([str(file), "--out", str(out)]) == 2
    assert "--resume" in capsys.readouterr().err


def test_results_do_not_depend_on_the_prompts_beside_them(small, tmp_path):
    trainer = train.Trainer(small(), tmp_path, small().model.load(pick(), 0), emit=lambda event: None)
    both = trainer.roll_out(0, train.Clock())
    alone = small("prompts.per_step=1")
    single = train.Trainer(alone, tmp_path, trainer.policy, emit=lambda event: None).roll_out(0, train.Clock())
    assert both.prompts[0] == single.prompts[0]
    torch.testing.assert_close(both.states[-1][0], single.states[-1][0], rtol=0, atol=1e-5)


def test_samples_that_a_server_cannot_judge_are_left_out_and_counted(small, tmp_path):
    def every_third(path, body, headers):
        return 200, {"scores": [None if i % 3 == 0 else float(i) for i in range(len(body["prompts"]))]}

    with serving(every_third) as url:
        config = small(
            f"rewards=[{{name: reward_server, url: '{url}'}}]",
            "evaluation.rewards=[{name: brightness}]",
            "steps=2",
            "method.branches=2",
        )
        outcome, seen = run(config, tmp_path)
    assert outcome == "done"
    first = next(one.metrics for one in seen if isinstance(one, StepDone))
    # 2 groups of 4 samples in one request: 0, 3 and 6 are null, and the mean of 1 2 4 5 7 is 3.8
    assert first["train/reward_failed_reward_server"] == 3
    assert first["train/reward_mean"] == pytest.approx(3.8)
    assert all(value is not None for value in first.values())
    whole = next(one for one in seen if isinstance(one, TreeDrawn) and one.rewards)
    assert whole.rewards == [None, 1.0, 2.0, None]
    assert whole.advantages[-1][0] == whole.advantages[-1][3] == 0
    report = next(one.report for one in seen if isinstance(one, EvaluationDone))
    assert report["rewards"]["reward_server"]["failed"] == 2  # of 6 pictures
    assert report["held_out"] == ["brightness"]
    assert 0 < report["rewards"]["brightness"]["mean"] < 1
    for one in seen:
        assert events.parse(one.model_dump_json()) == one


def test_a_step_in_which_nothing_can_be_judged_ends_the_run_and_says_why(small, tmp_path):
    with serving(lambda *_: (404, "no such judge")) as url:
        outcome, seen = run(small(f"rewards=[{{name: reward_server, url: '{url}'}}]"), tmp_path)
    assert outcome == "failed"
    assert "reward_server failed on 8 of 8 samples" in seen[-1].what
    assert "answered 404: no such judge" in seen[-1].what


def test_the_texts_of_a_run_are_those_it_samples_and_evaluates(small):
    config = small()
    texts = [text for text, own in train._texts(config) if own is None]
    sampled = [prompt.text for step in range(4) for prompt in config.prompts.batch(config.seed, step)]
    assert texts[-8:] == sampled
    assert len(texts) == 8 + 6  # 4 steps of 2 prompts, and 6 prompts of one seed


def test_negative_prompts_of_a_file_are_among_the_texts_of_a_run(small, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"prompt": "a star", "negative_prompt": "a square"}\n{"prompt": "a circle"}\n')
    config = small(f"prompts={{source: file, path: {file}, per_step: 2}}", f"evaluation.prompts={file}", "steps=1")
    pairs = [("a circle", None), ("a star", "a square")]
    texts = list(train._texts(config))
    assert sorted(texts[:2]) == sorted(texts[2:]) == pairs


def test_samples_of_two_seeds_are_kept_where_they_are_wished(small):
    config = small("evaluation.limit=10", "evaluation.seeds=[4,5,6]", "evaluation.shown=3", "evaluation.shown_seeds=2")
    items = items_of(config)
    found = [items[i] for i in train._spread(Evaluated(items, {}, range(0), torch.zeros(0)), config.evaluation)]
    prompts = list(dict.fromkeys(item.prompt_index for item in items))
    assert [(one.prompt_index, one.seed) for one in found] == [
        (prompts[place], seed) for seed in (4, 5) for place in (0, 3, 6)
    ]


def test_more_kept_seeds_than_seeds_are_refused(small):
    with pytest.raises(ValueError, match="shown_seeds: 2 of 1 seeds"):
        small("evaluation.shown_seeds=2")
