"""A supervisor as a process of its own, to be killed: supervisor.py RUN_ID."""

from __future__ import annotations

import sys

from tests.workers.child import child_command
from workers.supervise import Pace, supervise

if __name__ == "__main__":
    supervise(sys.argv[1], "w1@test", child_command, Pace(poll=0.02, lease=0.5, renew=0.1))
