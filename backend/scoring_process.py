"""The process that computes a run's rewards: `python -m backend.scoring_process FD DEVICE`. `scoring.py` starts it.

FD is its end of the connection to the run. When the connection closes, it leaves.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any


def main(descriptor: int, device: str) -> None:
    link = Connection(descriptor)
    asked: SimpleQueue[bytes] = SimpleQueue()
    # before torch is imported, which takes seconds in which the run would wait to hand over its frames
    threading.Thread(target=_read, args=(link, asked), name="run", daemon=True).start()
    import torch

    if device != "cpu":
        torch.cuda.set_device(device)
    while True:
        link.send_bytes(pickle.dumps(_answer(asked.get())))


def _read(link: Connection, asked: SimpleQueue[bytes]) -> None:
    """Takes what the run sends at once, whatever is being scored, so that it goes on sampling."""
    try:
        while True:
            asked.put(link.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _answer(data: bytes) -> Any:
    """Verdicts, or the Failure of a request that raised what a run ends with."""
    from backend.device import pick
    from backend.rewards import judging
    from backend.scoring import KINDS, Failure

    request = pickle.loads(data)
    try:
        found = judging.score(request.rewards, request.frames(pick()), request.prompts, request.metadata)
    except tuple(KINDS.values()) as error:
        traceback.print_exc()
        kind = next(name for name, one in KINDS.items() if isinstance(error, one))
        return Failure(kind, str(error))
    return judging.Verdicts({name: part.detach().cpu() for name, part in found.parts.items()}, found.reasons)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
