"""The training loop: the same with and without a database, a worker or a page."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend import checkpoint, first_frames, judged_groups, media, memory, negative_prompts, scoring, step_metrics
from backend.clock import UNLIMITED, Budget, Clock
from backend.config import Evaluation, RunConfig, dump
from backend.device import pick
from backend.evaluate import Evaluated, evaluate, generator, items_of, report
from backend.events import (
    CheckpointSaved,
    EvaluationDone,
    Event,
    Progress,
    RunEnded,
    RunStarted,
    Sample,
    SamplesSaved,
    StepDone,
)
from backend.facts import environment
from backend.groups import Groups
from backend.models.weights import Ema, Old
from backend.preferences import judged_folder
from backend.prompts import check
from backend.ranks import Joined, PeerFailed, PeerLost, add_gradients, in_turn, pooled, whole
from backend.rewards import judging
from backend.rollout_parts import sample_in_parts
from backend.tree_record import TreeRecorder
from backend.types import ALONE, Credit, MetadataReward, Ranks, Rollout, share

Emit = Callable[[Event], None]
NOISE, WATCHED_SEED = 0, 7


class NonFinite(RuntimeError):
    """A number that training depends on is NaN or infinite."""


@dataclass
class Trainer:
    """What one run holds in memory.

    ranks     the processes that train it together, each on its own prompts; the first saves and tells
    finished  training steps behind it
    """

    config: RunConfig
    run_dir: Path
    policy: Any
    emit: Emit
    stop: Callable[[], bool] = lambda: False
    budget: Budget = UNLIMITED
    ranks: Ranks = ALONE
    finished: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        settings = self.config.optimizer
        self.optimizer = torch.optim.AdamW(
            self.policy.tuned.parameters(),
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
        )
        self.memory = self.config.method.remember(self.policy)
        if self.config.method.keeps_old:
            self.policy.tuned.old = Old(self.policy.module)
        self.ema = Ema(self.policy.module, settings.ema_decay) if settings.ema_decay is not None else None
        self.sigmas: Tensor = self.config.grid()
        self.stored = self._open_groups(Path(self.config.groups)) if self.config.groups else None
        self.scorer = scoring.open_scorer(self.config.scoring, self.policy.device)
        self.score = partial(scoring.score, self.scorer)

    def _open_groups(self, folder: Path) -> Groups:
        config = self.config
        if judged_folder.is_judged(folder):
            facts = environment(self.policy.device)
            made = self.policy.encode_frames, config.model.base, facts, dump(config), self.run_dir / "groups"
            folder = in_turn(self.ranks, lambda: judged_groups.encode(folder, *made))
        stored = Groups(folder, config.rewards)
        group_size = config.method.plan(0, self.sigmas).num_leaves
        stored.check(config.model.base, self.policy.latent_shape, group_size, config.prompts.per_step)
        return stored

    def forwards_per_prompt(self, step: int) -> int:
        """Network evaluations of the step's rollout; stored groups need none."""
        return 0 if self.stored else self.config.method.plan(step, self.sigmas).forwards_per_prompt

    def prompt_facts(self) -> dict[str, str]:
        """What is recorded of a list of prompts; raises ValueError where it cannot be trained on."""
        first_frames.require(self.config)
        told = negative_prompts.facts(self.config)
        return told if self.stored else check.facts(self.config.prompts, self.config.evaluation.prompts) | told

    def averaged(self) -> Any:
        """A context in which the policy computes with the weights that are evaluated."""
        return nullcontext() if self.ema is None else self.ema.in_place()

    def roll_out(self, step: int, clock: Clock, recorder: TreeRecorder | None = None) -> Rollout:
        """Sample this process's share of the step's groups and score them; rewards [P, G] are of all groups."""
        config = self.config
        batch = config.prompts.batch(config.seed, step)
        own = share(len(batch), self.ranks)
        prompts = [batch[index] for index in own]
        texts = [one.text for one in prompts]
        generators = [generator(config.seed, step, index, NOISE) for index in own]
        plan = config.method.plan(step, self.sigmas)

        def hand_over(at: range, part: Rollout) -> None:
            leaves = part.states[-1]
            _require_finite(leaves, "latents", f"rollout of step {step}")
            each = [prompts[index] for index in at for _ in range(plan.num_leaves)]
            frames = media.quantise(self.policy.decode(leaves.flatten(0, 1)))
            self.scorer.submit(config.rewards, frames, [one.text for one in each], [one.metadata for one in each])

        with clock("rollout"):
            on_level = recorder.on_level(plan, texts) if recorder else None
            cond = self.policy.condition(
                texts, [one.first_frame for one in prompts], [one.negative_prompt for one in prompts]
            )
            at_once, most = config.scoring.prompts_per_part(len(texts)), config.sampling.micro_batch
            rollout = sample_in_parts(self.policy, texts, plan, generators, cond, at_once, hand_over, on_level, most)
        with clock("reward"):
            verdicts = self.scorer.answer()
            parts = {name: part.view(len(texts), -1) for name, part in verdicts.parts.items()}
            judged = whole(replace(rollout, parts=parts), [one.text for one in batch], self.ranks)
            weights: dict[str, float] = {one.name: one.weight for one in config.rewards}
            total = _total(judged.parts, weights, self.ranks.gather(verdicts.reasons))
        return replace(judged, rewards=total, part_weights=weights, judge=self.judge, memory=self.memory)

    def replay(self, step: int, clock: Clock, stored: Groups) -> Rollout:
        """The step's stored groups in place of a rollout."""
        config, group_size = self.config, self.config.method.plan(step, self.sigmas).num_leaves
        with clock("rollout"):
            rollout = stored.rollout(
                self.policy, self.sigmas, config.seed, step, config.prompts.per_step, group_size, self.ranks
            )
        return replace(rollout, judge=self.judge, memory=self.memory)

    def judge(self, frames: Tensor, prompts: Sequence[str]) -> Tensor:
        """The weighted sum of the rewards [N] of frames [N, F, C, H, W], for methods that train on its gradient.

        No reward that needs metadata has one.
        """
        plain = [one for one in self.config.rewards if not isinstance(one, MetadataReward)]
        assert len(plain) == len(self.config.rewards)
        return torch.stack([one.weight * one.score(frames, prompts) for one in plain]).sum(0)

    def update(self, rollout: Rollout, credit: Credit, step: int, clock: Clock) -> dict[str, float]:
        """All optimizer steps of one rollout; the mean of their metrics."""
        settings = self.config.optimizer
        rate = settings.learning_rate * min(1.0, (step + 1) / settings.warmup if settings.warmup else 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        trained = self.policy.tuned.parameters()
        seen: list[tuple[int, dict[str, float]]] = []
        norms: list[float] = []
        with clock("loss"):
            for loss in self.config.method.losses(self.policy, rollout, credit, step):
                if loss.value.requires_grad:
                    with clock("backward"):
                        loss.value.backward()
                if loss.update:
                    add_gradients(trained, self.ranks)
                    norm = torch.nn.utils.clip_grad_norm_(trained, settings.max_grad_norm)
                    _require_finite(norm, "gradient norm", f"update of step {step}")
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
                    norms.append(float(norm))
                    seen.append((loss.count, loss.metrics))
                    if self.ema is not None:
                        self.ema.update()
        updates = [{"train/grad_norm": norm} for norm in norms] + pooled(self.ranks.gather(seen))
        return step_metrics.means(updates)

    def train_step(self, step: int, clock: Clock, recorder: TreeRecorder | None = None) -> dict[str, float]:
        """One training step; its metrics under their charted names."""
        with clock("step"):
            if self.stored is None:
                rollout = self.roll_out(step, clock, recorder)
            else:
                rollout = self.replay(step, clock, self.stored)
            credit = self.config.method.credit(rollout, step)
            metrics = self.update(rollout, credit, step, clock)
        if recorder is not None:
            recorder.finish(rollout, credit)
        metrics |= step_metrics.of_groups(rollout, credit) | memory.of_step(self.config, self.policy.device)
        return metrics | {
            f"time/{phase}": clock.seconds.get(phase, 0.0) for phase in ("rollout", "reward", "loss", "step")
        }

    def run(self, start: int) -> str:
        """Steps start .. config.steps; returns the outcome, done or stopped."""
        config, every = self.config, self.config.logging
        if start == 0 and not self.evaluate(0):
            return "stopped"
        if start == 0:
            self.save_watched(0)
        elif self._evaluation_is_due(start) and not self.evaluate(start):
            return "stopped"  # a run that was cut off after its checkpoint lacks the evaluation that follows it
        self.emit(Progress(step=start, phase="train", done=start, total=config.steps))
        self.finished, trained = start, 0.0
        for step in range(start, config.steps):
            if any(self.ranks.gather(self.stop())):
                self.save(step)
                return "stopped"
            clock, done = Clock(self.budget.timer), step + 1
            drawn = self.leads and self.stored is None and (done % every.tree_every == 0 or done in (1, config.steps))
            recorder = TreeRecorder(done, self.run_dir, self.policy, self.emit) if drawn else None
            metrics = self.train_step(step, clock, recorder)
            self.finished, trained = done, trained + clock.seconds["step"]
            last = done == config.steps or self.ranks.gather(trained >= self.budget.seconds)[0]
            self.emit(StepDone(step=done, metrics=step_metrics.finite_or_none(metrics)))
            if done % every.samples_every == 0 or last:
                self.save_watched(done)
            saved = done % every.checkpoint_every == 0 or last
            if saved:
                self.save(done)
            if (last or self._evaluation_is_due(done)) and not self.evaluate(done):
                if not saved:
                    self.save(done)
                return "stopped"
            if last:
                break
        return "done"

    @property
    def leads(self) -> bool:
        """Whether this process is the one that saves and tells."""
        return self.ranks.rank == 0

    def _evaluation_is_due(self, step: int) -> bool:
        every = self.config.evaluation.every
        return step == self.config.steps or bool(every and step % every == 0)

    def evaluate(self, step: int) -> bool:
        """Evaluate the present weights on the held-out list; False when stopped on the way."""

        def progress(done: int, total: int) -> None:
            self.emit(Progress(step=step, phase="evaluate", done=done, total=total))

        with self.averaged():
            evaluated = evaluate(self.policy, self.config, progress, self.stop, self.score, self.ranks)
        if evaluated is None:
            return False
        found = report(evaluated, step, self.config.evaluation.held_out)
        self.emit(EvaluationDone(step=step, report=found))
        shown = _spread(evaluated, self.config.evaluation)
        self._save_samples(step, "test", evaluated, shown)
        return True

    def save_watched(self, step: int) -> None:
        """The same twelve held-out prompts and seeds every time, to see the model change."""
        first_seed = [item for item in items_of(self.config) if item.seed == self.config.evaluation.seeds[0]]
        stride = max(1, len(first_seed) // 12)
        items = [replace(item, seed=WATCHED_SEED) for item in first_seed[stride // 2 :: stride][:12]]
        with self.averaged():
            evaluated = evaluate(self.policy, self.config, ask=self.score, ranks=self.ranks, items=items)
        assert evaluated is not None
        self._save_samples(step, "fixed", evaluated, range(len(items)))

    def _save_samples(self, step: int, collection: str, evaluated: Evaluated, shown: Sequence[int]) -> None:
        """Each process writes what it has made; the first tells of all."""
        saved = {i: self._saved(evaluated, i) for i in shown if i in evaluated.own}
        found = {i: sample for one in self.ranks.gather(saved) for i, sample in one.items()}
        self.emit(SamplesSaved(step=step, collection=collection, samples=[found[i] for i in shown]))

    def _saved(self, evaluated: Evaluated, i: int) -> Sample:
        """The sample of item i, one of this process's own, after its media were written."""
        item = evaluated.items[i]
        return Sample(
            prompt_index=item.prompt_index,
            prompt=item.prompt,
            seed=item.seed,
            task=item.task or None,
            media=media.save_sample(self.run_dir, evaluated.frames[i - evaluated.own.start]),
            scores={
                name: round(float(values[i]), 6) if math.isfinite(values[i]) else None
                for name, values in evaluated.scores.items()
            },
        )

    def save(self, step: int) -> None:
        """A checkpoint, before which no process goes on or leaves: one that cannot be written ends them all."""
        if self.leads:
            folder = checkpoint.save(
                self.run_dir, step, self.policy, self.optimizer, self.ema, dump(self.config), self.memory
            )
            size = sum(path.stat().st_size for path in folder.iterdir())
            self.emit(CheckpointSaved(step=step, path=folder.name, bytes=size))
        self.ranks.gather(None)


def _require_finite(values: Tensor, what: str, where: str) -> None:
    if not torch.isfinite(values).all():
        raise NonFinite(f"{what} became NaN or infinite in the {where}")


def _total(parts: dict[str, Tensor], weights: dict[str, float], told: Sequence[dict[str, str]]) -> Tensor:
    """The weighted sum [P, G]. Raises RewardFailed, with the reasons told, when no sample of the step was judged."""
    try:
        return judging.total(parts, weights)
    except judging.RewardFailed as error:
        reasons = "; ".join(dict.fromkeys(f"{name}: {reason}" for one in told for name, reason in one.items()))
        raise judging.RewardFailed(f"{error} ({reasons})" if reasons else str(error)) from error


def _spread(evaluated: Evaluated, wanted: Evaluation) -> list[int]:
    """Indices of the items that are kept: `shown` prompts, evenly spaced over the list, at `shown_seeds` seeds."""
    place = {(item.prompt_index, item.seed): i for i, item in enumerate(evaluated.items)}
    prompts = list(dict.fromkeys(item.prompt_index for item in evaluated.items))
    number = min(wanted.shown, len(prompts))
    kept = [prompts[int(k * len(prompts) / number)] for k in range(number)]
    return [place[prompt, seed] for seed in wanted.seeds[: wanted.shown_seeds] for prompt in kept]


def _texts(config: RunConfig) -> Iterator[tuple[str, str | None]]:
    """Every prompt that a run samples or evaluates, with its own negative prompt."""
    yield from ((item.prompt, item.negative_prompt) for item in items_of(config))
    for step in range(config.steps if config.groups is None else 0):
        yield from ((prompt.text, prompt.negative_prompt) for prompt in config.prompts.batch(config.seed, step))


def train(
    config: RunConfig,
    run_dir: Path,
    emit: Emit,
    stop: Callable[[], bool],
    resume: bool,
    budget: Budget = UNLIMITED,
    ranks: Ranks = ALONE,
) -> str:
    """Run the config in run_dir to its end, a stop, or a failure; returns the outcome after emitting it.

    ranks  the processes of the run, each of which calls this; what any but the first emits is for nobody.
    Raises PeerLost where one of the others is gone without a word.
    """
    start, trainer = 0, None
    try:
        policy = config.model.load(pick(), config.seed)
        if config.model.release_text_encoders:
            in_turn(ranks, lambda: policy.encode_ahead(*zip(*_texts(config), strict=True)))
        trainer = Trainer(config, run_dir, policy, emit, stop, budget, ranks)
        newest = ranks.gather(checkpoint.latest(run_dir) if resume else None)[0]
        start = checkpoint.resume(newest, policy, trainer.optimizer, trainer.ema, trainer.memory) if newest else 0
        ranks.gather(None)  # one that could not load tells it before the first evaluation, not after
        emit(_started(trainer, start))
        outcome = trainer.run(start)
        emit(RunEnded(step=trainer.finished, outcome="done" if outcome == "done" else "stopped"))
        return outcome
    except PeerLost:
        raise
    except (NonFinite, ValueError, RuntimeError, OSError) as error:
        traceback.print_exc()
        if isinstance(ranks, Joined) and not isinstance(error, PeerFailed):
            with suppress(PeerLost):  # this error is the cause, whoever is still there to be told
                ranks.fail(str(error))
        frame = traceback.extract_tb(error.__traceback__)[-1]
        emit(failed(run_dir, start, str(error), f"{frame.name}, {frame.filename}:{frame.lineno}"))
        return "failed"
    finally:
        if trainer is not None:
            trainer.scorer.close()


def _started(trainer: Trainer, step: int) -> RunStarted:
    policy = trainer.policy
    processes = {"processes": str(trainer.ranks.size)} if trainer.ranks.size > 1 else {}
    return RunStarted(
        start_step=step,
        total_steps=trainer.config.steps,
        facts=environment(policy.device) | processes | memory.facts(trainer.config) | trainer.prompt_facts(),
        trained_parameters=sum(value.numel() for value in policy.tuned.parameters()),
        total_parameters=sum(value.numel() for value in policy.module.parameters()),
        forwards_per_prompt=trainer.forwards_per_prompt(step),
    )


def failed(run_dir: Path, step: int, what: str, where: str = "") -> RunEnded:
    """The last word of a run that failed, with the checkpoint that is left of it."""
    newest = checkpoint.latest(run_dir)
    kept = f"; the last good checkpoint is {newest.name}" if newest else "; no checkpoint was saved before it"
    return RunEnded(step=step, outcome="failed", what=f"{what}{kept}", where=where)
