"""The other processes of a run: started by its first one, watched by it, and gone with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

PEER = "--peer"
GRACE_SECONDS = 10.0
FAREWELL_SECONDS = 60.0
PROJECT = Path(__file__).resolve().parents[1]


class Peers:
    """Processes 1 .. processes - 1 of a run whose process 0 is this one.

    They run the same `espalier train` command, with the environment in which torchrun would start them, and leave when
    their standard input closes, so none outlives this process however it ends. on_loss is called, from a thread, with
    what became of one that ended with an error, unless this process leaves within GRACE_SECONDS of that.
    """

    def __init__(self, processes: int, argv: Sequence[str], on_loss: Callable[[str], object]) -> None:
        self._on_loss = on_loss
        self._lost = threading.Event()
        self._over = threading.Event()
        self.loss = ""
        place = _meeting_place(processes)
        self._children = [self._start(rank, argv, place) for rank in range(1, processes)]
        os.environ.update(place, RANK="0", LOCAL_RANK="0")
        torch.set_num_threads(int(place["OMP_NUM_THREADS"]))
        for rank, child in enumerate(self._children, start=1):
            threading.Thread(target=self._watch, args=(rank, child), name=f"process {rank}", daemon=True).start()

    def wait_for_loss(self) -> str:
        """What became of the process that is gone, once it is known; empty when none is after GRACE_SECONDS."""
        self._lost.wait(GRACE_SECONDS)
        self._over.set()
        return self.loss

    def close(self) -> None:
        """Waits for them to leave, and ends those that do not."""
        self._over.set()
        for child in self._children:
            assert child.stdin is not None
            child.stdin.close()
        for child in self._children:
            try:
                child.wait(FAREWELL_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _start(self, rank: int, argv: Sequence[str], place: dict[str, str]) -> subprocess.Popen[bytes]:
        paths = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.Popen(
            [sys.executable, "-m", "app", "train", *argv, PEER],
            stdin=subprocess.PIPE,
            env={**os.environ, **place, **own},
            start_new_session=True,  # a Ctrl+C at the terminal is for process 0, which tells the others
        )

    def _watch(self, rank: int, child: subprocess.Popen[bytes]) -> None:
        code = child.wait()
        if code == 0 or self._over.is_set():
            return
        ending = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
        self.loss = self.loss or f"process {rank} of the run {ending}; what it said is in the log"
        self._lost.set()
        if not self._over.wait(GRACE_SECONDS):  # this process waits for an answer that will not come
            self._on_loss(self.loss)


def leave_with_parent() -> None:
    """Ends this process at once when its standard input closes. A peer has nothing to save."""

    def watch() -> None:
        while sys.stdin.buffer.read(1024):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="process 0", daemon=True).start()


def _meeting_place(processes: int) -> dict[str, str]:
    """The environment that all processes share."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads),
    }
