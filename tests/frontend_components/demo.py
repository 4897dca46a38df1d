"""A made-up run folder with everything that pages show, for tests of the pages. None of its numbers was measured.

The arithmetic is honest: values are means over children, advantages are standardised within their depth, and pruned
edges are those without a kept leaf below them. The pictures are drawn with Pillow.
"""

from __future__ import annotations

import hashlib
import io
import random
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from backend.events import (
    CheckpointSaved,
    EvaluationDone,
    Event,
    EventLog,
    Media,
    Progress,
    RunEnded,
    RunStarted,
    Sample,
    SamplesSaved,
    Sprite,
    StepDone,
    TreeDrawn,
)
from db import runs
from db.session import writing
from db.settings import settings
from workers.ingest import ingest

STEPS = 20
SPLITS = (0, 3, 6, 9)
START = time.time() - 3000
PROMPTS = (
    ("a red circle above a blue square", "position"),
    ("two green triangles", "count"),
    ("a yellow square", "colour"),
    ("a purple circle left of an orange triangle", "position"),
    ("three blue circles", "count"),
    ("a green square on the right", "position"),
)
COLOURS = {
    "red": "#d64541",
    "blue": "#3f6fc4",
    "green": "#3f9a5b",
    "yellow": "#e3b43c",
    "purple": "#8b57b5",
    "orange": "#e07d2c",
}
CONFIG = {
    "name": "branchgrpo-shapes",
    "seed": 0,
    "steps": 24,
    "model": {"family": "sd3", "base": "shapes"},
    "method": {"name": "branchgrpo", "branching": 2, "splits": list(SPLITS), "clip": 0.001},
    "rewards": {"strict": 1.0, "quality": 0.2},
    "sampling": {"steps": STEPS},
}


def save(run_dir: Path, image: Image.Image, extension: str = "webp") -> Media:
    """Writes one picture under its content's hash."""
    buffer = io.BytesIO()
    image.save(buffer, extension.upper(), quality=88)
    data = buffer.getvalue()
    sha = hashlib.sha256(data).hexdigest()
    path = Path("media") / sha[:2] / f"{sha}.{extension}"
    (run_dir / path).parent.mkdir(parents=True, exist_ok=True)
    (run_dir / path).write_bytes(data)
    mime = f"image/{extension}"
    return Media(sha256=sha, mime=mime, width=image.width, height=image.height, bytes=len(data), path=str(path))


def draw(prompt: str, seed: int, skill: float, noise: float = 0.0, size: int = 64) -> tuple[Image.Image, bool]:
    """A picture of a prompt under a share of noise, and whether it is right: so with probability `skill`."""
    chance = random.Random(f"{prompt}/{seed}")
    right = chance.random() < skill
    words = prompt.split()
    shapes = [w.rstrip("s") for w in words if w.rstrip("s") in ("circle", "square", "triangle")]
    colours = [w for w in words if w in COLOURS]
    number = {"two": 2, "three": 3}.get(words[0], 1)
    items = list(zip(colours, shapes, strict=True)) * number
    if not right:
        other = chance.choice([c for c in COLOURS if c != items[0][0]])
        items = items[:-1] if len(items) > 1 else [(other, items[0][1])]
    image = Image.new("RGB", (4 * size, 4 * size), (238, 236, 229))
    pen = ImageDraw.Draw(image)
    for i, (colour, shape) in enumerate(items):
        x, y = (2 * i + 1) / (2 * len(items)) * 4 * size, (1 + chance.random() * 2) * size
        if "above" in words:
            x, y = y, x
        r = size * (0.5 + 0.25 * chance.random())
        if shape == "circle":
            pen.ellipse((x - r, y - r, x + r, y + r), fill=COLOURS[colour])
        elif shape == "square":
            pen.rectangle((x - r, y - r, x + r, y + r), fill=COLOURS[colour])
        else:
            pen.polygon([(x, y - r), (x + r, y + r), (x - r, y + r)], fill=COLOURS[colour])
    pixels = np.asarray(image.resize((size, size), Image.Resampling.LANCZOS), dtype=float)
    static = np.random.default_rng(seed).normal(128, 60, pixels.shape)
    blend = (1 - noise) * pixels + noise * static
    return Image.fromarray(blend.clip(0, 255).astype("uint8")), right


def parents_of() -> list[list[int]]:
    parents, width = [], 1
    for step in range(STEPS):
        copies = 2 if step in SPLITS else 1
        parents.append([i for i in range(width) for _ in range(copies)])
        width *= copies
    return parents


def tree(run_dir: Path, step: int, prompt_index: int, level: int = STEPS) -> TreeDrawn:
    """One tree of 16 leaves, as far as `level`; with credit when it is complete."""
    chance = np.random.default_rng((step, prompt_index))
    prompt = PROMPTS[prompt_index][0]
    parents = parents_of()
    sigmas = [1 - i / STEPS for i in range(STEPS + 1)]
    rates = [0.0 if i >= 16 else 0.7 for i in range(STEPS)]
    logps = [
        [None if rates[i] == 0 else float(x) for x in chance.normal(-0.9, 0.02, len(p))] for i, p in enumerate(parents)
    ]
    skill = 0.35 + 0.5 * step / 24
    pictures, nodes, right = [], [], []
    for depth in range(level + 1):
        if depth in SPLITS or depth == STEPS:
            for index in range(1 if depth == 0 else len(parents[depth - 1])):
                picture, good = draw(
                    prompt, 1000 * step + 20 * index + prompt_index, skill, 0.75 * sigmas[depth] ** 1.5
                )
                pictures.append(picture)
                nodes.append((depth, index))
                if depth == STEPS:
                    right.append(float(good))
    columns = 8
    sheet = Image.new("RGB", (64 * columns, 64 * -(-len(pictures) // columns)))
    for i, picture in enumerate(pictures):
        sheet.paste(picture, (64 * (i % columns), 64 * (i // columns)))
    sprite = Sprite(media=save(run_dir, sheet), cell=64, columns=columns, nodes=nodes)
    common = {
        "step": step,
        "prompt_index": prompt_index,
        "prompt": prompt,
        "level": level,
        "sigmas": sigmas,
        "rates": rates,
    }
    if level < STEPS:
        return TreeDrawn(**common, time=START + 60 * step, parents=parents[:level], logps=logps[:level], sprite=sprite)
    quality = [float(x) for x in chance.uniform(0.3, 0.9, 16)]
    rewards = [r + 0.2 * q for r, q in zip(right, quality, strict=True)]
    values, advantages, keep = credit(parents, rewards)
    return TreeDrawn(
        **common,
        time=START + 60 * step + 50,
        parents=parents,
        logps=logps,
        values=values,
        advantages=advantages,
        keep=keep,
        rewards=rewards,
        parts={"strict": right, "quality": quality},
        sprite=sprite,
    )


def credit(
    parents: list[list[int]], rewards: list[float]
) -> tuple[list[list[float]], list[list[float]], list[list[bool]]]:
    """Values as means of children, advantages standardised by depth, edges kept above the 6 best and 6 worst leaves."""
    order = np.argsort(rewards)
    kept = np.zeros(len(rewards), bool)
    kept[order[:6]] = kept[order[-6:]] = True
    values, keep = [np.array(rewards)], [kept]
    for level in reversed(parents):
        width = max(level) + 1
        children = np.bincount(level, minlength=width)
        values.insert(0, np.bincount(level, weights=values[0], minlength=width) / children)
        keep.insert(0, np.bincount(level, weights=keep[0], minlength=width) > 0)
    advantages = [(v - v.mean()) / (v.std() + 1e-6) for v in values[1:]]
    return [v.tolist() for v in values], [a.tolist() for a in advantages], [k.tolist() for k in keep[1:]]


def metrics(step: int, total: int) -> dict[str, float | None]:
    chance = np.random.default_rng(step + 77)
    gain = 1 - np.exp(-3 * step / total)
    wobble = lambda scale: float(chance.normal(0, scale))  # noqa: E731
    return {
        "train/reward_mean": 0.42 + 0.45 * gain + wobble(0.03),
        "train/reward_std": 0.34 - 0.1 * gain + wobble(0.01),
        "train/reward_strict": 0.33 + 0.42 * gain + wobble(0.03),
        "train/reward_quality": 0.55 + 0.05 * gain + wobble(0.01),
        "train/zero_std_ratio": max(0.0, 0.05 + 0.2 * gain + wobble(0.04)),
        "train/approx_kl": abs(2e-4 + wobble(5e-5)),
        "train/clipfrac": min(1.0, abs(0.12 + 0.1 * gain + wobble(0.03))),
        "train/ratio_mean": 1 + wobble(2e-4),
        "train/grad_norm": 0.5 + wobble(0.06),
        "train/loss": wobble(4e-4),
        "train/advantage_abs_mean": 0.8 + wobble(0.02),
        "time/rollout": 6.2 + wobble(0.2),
        "time/reward": 0.4 + wobble(0.03),
        "time/loss": 9.1 + wobble(0.3),
        "time/step": 15.7 + wobble(0.4),
    }


def sample_set(run_dir: Path, collection: str, step: int, count: int) -> SamplesSaved:
    skill = 0.35 + 0.5 * step / 24
    saved = []
    for index in range(count):
        prompt, task = PROMPTS[index % len(PROMPTS)]
        picture, right = draw(prompt, 500 + index, skill)
        scores = {"strict": float(right), "quality": 0.5 + 0.4 * random.Random(index + step).random()}
        media = save(run_dir, picture)
        saved.append(Sample(prompt_index=index, prompt=prompt, seed=500 + index, media=media, scores=scores, task=task))
    return SamplesSaved(time=START + 60 * step, step=step, collection=collection, samples=saved)


def report(saved: SamplesSaved) -> EvaluationDone:
    """The evaluation that belongs to a set of samples, with normal 95 % intervals."""

    def interval(values: list[float]) -> dict[str, float]:
        mean, half = float(np.mean(values)), 1.96 * float(np.std(values)) / len(values) ** 0.5
        return {"mean": mean, "low": mean - half, "high": mean + half}

    def of(name: str, task: str | None = None) -> list[float]:
        return [s.scores[name] or 0.0 for s in saved.samples if task in (None, s.task)]

    tasks = {task: interval(of("strict", task)) | {"count": len(of("strict", task))} for _, task in PROMPTS}
    strict = {"overall": interval(of("strict")), "tasks": tasks}
    rewards = {"strict": interval(of("strict")), "quality": interval(of("quality"))}
    facts = {"num_prompts": len(saved.samples), "seeds": [500], "step": saved.step}
    content = {"strict_accuracy": strict, "rewards": rewards, "quality": interval(of("quality")), **facts}
    return EvaluationDone(time=saved.time, step=saved.step, report=content)


def events(run_dir: Path, steps: int = 24, total: int = 24, ended: bool = True) -> list[Event]:
    """What a run of `total` steps has left behind after `steps` of them."""
    facts = {
        "python": "3.11",
        "torch": "2.13",
        "device": "cpu",
        "revision": "demo",
        "command": "espalier train config.yaml",
    }
    counts = {"trained_parameters": 92_160, "total_parameters": 2_310_000, "forwards_per_prompt": 203}
    made: list[Event] = [RunStarted(time=START, start_step=0, total_steps=total, facts=facts, **counts)]
    for step in range(0, steps + 1):
        if step % 8 == 0:
            held_out = sample_set(run_dir, "test", step, 48)
            made += [sample_set(run_dir, "fixed", step, 8), held_out, report(held_out)]
        if step == 0:
            continue
        made.append(Progress(time=START + 60 * step, step=step, phase="rollout", done=20, total=20))
        made += [tree(run_dir, step, prompt) for prompt in ((0, 1) if step % 2 == 0 else (0,))]
        made.append(StepDone(time=START + 60 * step + 55, step=step, metrics=metrics(step, total)))
    made.append(CheckpointSaved(time=START + 60 * steps, step=steps, path=f"checkpoint-{steps}", bytes=740_000))
    if ended:
        made.append(RunEnded(time=START + 60 * steps + 1, step=steps, outcome="done"))
    return made


def write(run_dir: Path, made: list[Event]) -> None:
    run_dir.mkdir(parents=True, exist_ok=True)
    log = EventLog(run_dir / "events.jsonl")
    for event in made:
        log(event)
    log.close()
    (run_dir / "log.txt").write_text("step 22: reward 0.84\nstep 23: reward 0.86\nsaved checkpoint-24\n")


def plant(name: str = "branchgrpo-shapes", steps: int = 24, total: int = 24, end: str | None = "done") -> str:
    """Writes a run folder and reads it into rows as a worker would; the run is left in state `end` (None: running)."""
    with writing() as session:
        run_id = runs.create(session, name=name, config=CONFIG | {"steps": total}, preset="shapes-branchgrpo").id
        attempt = runs.claim(session, run_id, "demo", 3600)
    assert attempt is not None
    folder = settings().run_dir(run_id)
    folder.mkdir(parents=True)
    write(folder, events(folder, steps, total, ended=end is not None))
    while True:
        with writing() as session:
            if not ingest(session, run_id, attempt).num_events:
                break
    with writing() as session:
        runs.get(session, run_id).log_tail = (folder / "log.txt").read_text()
        if end is not None:
            why = "out of memory in rollout; resume goes on from checkpoint-8" if end == "failed" else ""
            runs.move(session, run_id, end, who="demo", why=why, attempt=attempt)
    return run_id
