"""Runs on two processes that a launcher starts, for tests: every NAME.yaml of a folder is trained into folder NAME.

A folder that is there already is resumed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import torch

PROJECT = Path(__file__).resolve().parents[2]


def launch(folder: Path) -> None:
    """Trains all runs of the folder; their events are in NAME/events.jsonl."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(folder)]), "OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    with (folder / "launch.log").open("w") as log:
        command = [*launcher, __file__, str(folder)]
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    family: set[psutil.Process] = set()
    try:
        while started.poll() is None:
            family |= set(psutil.Process(started.pid).children(recursive=True))
            with suppress(subprocess.TimeoutExpired):
                started.wait(1.0)
    finally:  # ranks outlive a launcher that is killed
        for one in (started, *family):
            with suppress(psutil.NoSuchProcess):
                one.kill()
    assert started.returncode == 0, (folder / "launch.log").read_text()


def corner(frames: torch.Tensor, prompts: object, metadata: object) -> list[float]:
    """A reward: pictures of untrained autoencoders differ in a corner by far more than rounding."""
    return frames[..., :4, :4].double().mean((1, 2, 3, 4)).tolist()


def main(folder: Path) -> None:
    from backend.config import load
    from backend.events import EventLog
    from backend.ranks import join
    from backend.train import train

    torch.set_num_threads(1)
    ranks = join(2)
    for file in sorted(folder.glob("*.yaml")):
        out = folder / file.stem
        resume = bool(ranks.gather(out.exists())[0])
        out.mkdir(exist_ok=True)
        log = EventLog(out / "events.jsonl") if ranks.rank == 0 else lambda event: None
        train(load(file), out, log, lambda: False, resume, ranks=ranks)
    ranks.leave()  # type: ignore[attr-defined]
    # one that is left lets go of its tensors while the interpreter ends, which now and then aborts the process
    assert not [one for one in _threads() if "gloo" in one]


def _threads() -> list[str]:
    """Names of this process's threads, C++ ones included; none where the system does not tell."""
    return [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
