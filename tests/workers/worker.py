"""The real worker, with the tiny trainer."""

from __future__ import annotations

import sys

import workers.tasks
from tests.workers.child import child_command
from workers.app import main

if __name__ == "__main__":
    workers.tasks.trainer_command = child_command
    raise SystemExit(main(sys.argv[1:]))
