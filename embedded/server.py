"""The embedded server: `with EmbeddedServer(folder) as server: … server.http_url …`."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from embedded.admin_key import ADMIN_KEY_HEADER, project_admin_key
from embedded.canary import check_canary, is_ready
from embedded.drain import DRAIN_FILE_VARIABLE, drain
from embedded.errors import CanaryFailed, EmbeddedError, ServerDied
from embedded.flags import compose_flags, override_flags, own_flags
from embedded.layout import assemble_backends, server_environment, wheel_folder
from embedded.preflight import (
    HOST,
    check_log,
    check_machine,
    check_model_files,
    check_ports,
    free_ports,
)
from embedded.process import ServerProcess, remove_shared_memory
from embedded.repository import read_repository
from embedded.server_log import LogFollower, last_errors

PROJECT = Path(__file__).resolve().parents[1]
_POLL_INTERVAL_S = 0.1
_SLOW_START_NOTICE_S = 10.0
# Above the --exit-timeout-secs of the compose file, after which the server gives up waiting.
_STOP_PATIENCE_S = 15.0


class EmbeddedServer:
    """A tritonserver on 127.0.0.1 that runs while the context is open.

    `http_port`, `grpc_port`, `metrics_port`: 0 picks a free one. `config_name`: which
    configs/<name>.pbtxt a model uses where it has one. `log_path`: where the server's own log
    goes; by default a temporary file that ends with the server. `echo_log` copies its meaningful
    lines to stderr. `admin_key` opens the model-repository API (header `triton-admin-key`); by
    default secrets/triton_admin_key, or a random key where that file does not exist. While
    `drain_file` exists new requests get 503; stopping creates it.
    Entering raises an EmbeddedError (see embedded/errors.py) and leaves nothing behind.
    """

    def __init__(
        self,
        model_repository: Path | str = PROJECT / "model_repository",
        *,
        config_name: str = "cpu",
        http_port: int = 0,
        grpc_port: int = 0,
        metrics_port: int = 0,
        compose_file: Path | str = PROJECT / "docker-compose.yml",
        admin_key: str | None = None,
        log_path: Path | str | None = None,
        echo_log: bool = False,
        start_timeout_s: float = 120.0,
    ) -> None:
        self.model_repository = Path(model_repository).resolve()
        self.config_name = config_name
        self.ports = {"http": http_port, "grpc": grpc_port, "metrics": metrics_port}
        self.compose_file = Path(compose_file)
        self.admin_key = admin_key or project_admin_key(PROJECT)
        self.log_path: Path | None = None
        self.drain_file: Path | None = None
        self._log_wish = Path(log_path).resolve() if log_path else None
        self.start_timeout_s = start_timeout_s
        self.ensembles: list[str] = []
        self.shm_prefix = f"triton_embedded_{os.getpid()}_{secrets.token_hex(4)}_"
        self._echo_log = echo_log
        self._cleanup = ExitStack()
        self._process: ServerProcess | None = None

    @property
    def http_address(self) -> str:
        return f"{HOST}:{self.ports['http']}"

    @property
    def http_url(self) -> str:
        return f"http://{self.http_address}"

    @property
    def grpc_address(self) -> str:
        return f"{HOST}:{self.ports['grpc']}"

    @property
    def metrics_url(self) -> str:
        return f"http://{HOST}:{self.ports['metrics']}/metrics"

    @property
    def admin_headers(self) -> dict[str, str]:
        """HTTP headers that open the model-repository API."""
        return {ADMIN_KEY_HEADER: self.admin_key}

    @property
    def pid(self) -> int:
        return self._running().pid

    def exit_code(self) -> int | None:
        """Return the server's exit code, or None while it runs."""
        return self._running().exit_code()

    def flags(self, backend_folder: Path) -> list[str]:
        """Return tritonserver's flags: the compose file's, with this run's own in place."""
        own = own_flags(
            model_repository=self.model_repository,
            config_name=self.config_name,
            backend_folder=backend_folder,
            cache_folder=wheel_folder() / "caches",
            ports=self.ports,
            admin_key=self.admin_key,
            shm_prefix=self.shm_prefix,
        )
        return override_flags(compose_flags(self.compose_file, os.environ), own)

    def __enter__(self) -> EmbeddedServer:
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._start()
            self._wait_until_it_answers()
            undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server; leaves no process, no shared memory, no temporary folder."""
        self._cleanup.close()
        self._process = None

    def _start(self) -> None:
        check_machine()
        models = read_repository(self.model_repository, self.config_name)
        check_model_files(models)
        self.ensembles = [model.name for model in models if model.is_ensemble]
        self._choose_ports()
        folder = Path(
            self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="triton-embedded-"))
        )
        backends = folder / "backends"
        assemble_backends(backends)
        log = self.log_path = self._log_wish or folder / "server.log"
        check_log(log)
        self._cleanup.callback(remove_shared_memory, self.shm_prefix)
        command = [str(wheel_folder() / "bin" / "tritonserver"), *self.flags(backends)]
        # The working directory is not the project's: what a stub imports must be installed.
        drain_file = self.drain_file = folder / "draining"
        environment = server_environment(self.config_name)
        environment[DRAIN_FILE_VARIABLE] = str(drain_file)
        process = ServerProcess(command, environment, folder, log)
        if self._echo_log:
            self._cleanup.callback(LogFollower(log, sys.stderr).close)
        self._cleanup.callback(process.stop, _STOP_PATIENCE_S)
        self._cleanup.callback(drain, drain_file, self.metrics_url)
        self._process = process

    def _choose_ports(self) -> None:
        wanted = [name for name, port in self.ports.items() if port == 0]
        self.ports.update(zip(wanted, free_ports(len(wanted))))
        check_ports(self.ports)

    def _wait_until_it_answers(self) -> None:
        started = time.monotonic()
        deadline = started + self.start_timeout_s
        notice_at = started + _SLOW_START_NOTICE_S
        while not is_ready(self.http_url):
            self._raise_if_dead()
            now = time.monotonic()
            if now > deadline:
                raise EmbeddedError(
                    f"tritonserver was not ready after {self.start_timeout_s:.0f} s"
                    f"{self._log_extract()}"
                )
            if now > notice_at:
                _report(f"models are still loading after {now - started:.0f} s")
                notice_at += _SLOW_START_NOTICE_S
            time.sleep(_POLL_INTERVAL_S)
        _report(f"tritonserver is ready after {time.monotonic() - started:.1f} s")
        for ensemble in self.ensembles:
            self._check_canary(ensemble, max(1.0, deadline - time.monotonic()))

    def _check_canary(self, ensemble: str, timeout_s: float) -> None:
        started = time.monotonic()
        try:
            check_canary(self.http_url, ensemble, timeout_s)
        except CanaryFailed as error:
            self._raise_if_dead()
            raise CanaryFailed(f"{error}{self._log_extract()}") from None
        _report(f"{ensemble} answers, {(time.monotonic() - started) * 1e3:.0f} ms")

    def _raise_if_dead(self) -> None:
        code = self._running().exit_code()
        if code is not None:
            raise ServerDied(f"tritonserver ended with exit code {code}{self._log_extract()}")

    def _log_extract(self) -> str:
        lines = last_errors(self.log_path) if self.log_path else []
        return "".join(f"\n  {line}" for line in lines)

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise EmbeddedError("the server is not running")
        return self._process


def _report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
