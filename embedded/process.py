"""The tritonserver process: started in its own group, stopped without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_POLL_INTERVAL_S = 0.05
# A killed group needs this long at most to disappear from the process table.
_KILL_WAIT_S = 5.0


class ServerProcess:
    """One tritonserver and its Python stubs, together one process group."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        with log.open("wb") as output:
            # Its own session: Ctrl-C reaches the launcher alone, which then stops the server.
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the server's exit code, or None while it runs."""
        return self._process.poll()

    def stop(self, patience_s: float) -> bool:
        """End server and stubs; return False when they had to be killed."""
        # SIGTERM would leave regions in /dev/shm behind.
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        went = _wait_until(lambda: self._process.poll() is not None, patience_s)
        went = went and _wait_until(lambda: not self._group_exists(), 2.0)
        if not went:
            self._kill_group()
        return went

    def _group_exists(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()
        _wait_until(lambda: not self._group_exists(), _KILL_WAIT_S)


def remove_shared_memory(prefix: str) -> None:
    """Remove the regions that a killed server left behind."""
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True
