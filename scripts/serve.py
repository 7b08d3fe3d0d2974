"""Serve the model repository in the foreground, on this machine's CPU, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import manifest
from embedded import EmbeddedError, EmbeddedServer, PreflightError, ServerDied

DEFAULT_PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
_POLL_INTERVAL_S = 0.5

EXAMPLE = """\
example:
  HTTP_PORT=9000 python scripts/serve.py --log server.log

exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 the server ended or does not answer,
2 this machine, a port or the model repository is not ready to serve"""


def main() -> int:
    """Run the server until a signal ends it; see the exit codes in --help."""
    arguments = _parse()
    # SIGINT too: a shell without job control starts background processes with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        return _serve(arguments)
    except KeyboardInterrupt:
        return 0
    except EmbeddedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, PreflightError) else 1


def _serve(arguments: argparse.Namespace) -> int:
    server = EmbeddedServer(
        arguments.model_repository,
        http_port=arguments.http_port,
        grpc_port=arguments.grpc_port,
        metrics_port=arguments.metrics_port,
        log_path=arguments.log,
        echo_log=True,
        start_timeout_s=arguments.start_timeout,
    )
    with server:
        print(_welcome(server), flush=True)
        try:
            while server.exit_code() is None:
                time.sleep(_POLL_INTERVAL_S)
        except KeyboardInterrupt:
            print("stopping", file=sys.stderr)
            # Stopping takes seconds and is bounded: a second Ctrl-C must not cut it short.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            return 0
        raise ServerDied(f"tritonserver ended by itself with exit code {server.exit_code()}")


def _welcome(server: EmbeddedServer) -> str:
    lines = [
        f"HTTP     {server.http_url}",
        f"gRPC     {server.grpc_address}",
        f"metrics  {server.metrics_url}",
        f"log      {server.log_path}",
    ]
    asked_for = os.environ.get("MODEL_CONFIG", server.config_name)
    if asked_for != server.config_name:
        lines.append(f"MODEL_CONFIG={asked_for} is for the Compose stack: this serves cpu.")
    for ensemble in server.ensembles:
        if not _is_meaningful(server, ensemble):
            lines.append(f"{ensemble}: random weights, its labels are meaningless")
    lines.append("Ask it, without any library:")
    for ensemble in server.ensembles:
        lines.append(
            f"""printf '{{"RAW_IMAGE": "%s"}}' "$(base64 -w0 docs/pictures/cat.jpg)" | """
            f"curl -sS -d @- {server.http_url}/v2/models/{ensemble}/generate"
        )
    return "\n".join([*lines, "Ctrl-C stops it."])


def _is_meaningful(server: EmbeddedServer, ensemble: str) -> bool:
    """Whether the newest weights of a pipeline are more than random numbers."""
    inference = server.model_repository / f"{ensemble.removesuffix('_ensemble')}_inference"
    versions = [folder for folder in inference.glob("[1-9]*") if folder.name.isdigit()]
    try:
        served = manifest.read(max(versions, key=lambda folder: int(folder.name)))
    except (ValueError, manifest.ManifestError):
        return True  # a model without a manifest: nothing is known against it
    return bool(served["meaningful"])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model-repository",
        type=Path,
        default=Path(__file__).resolve().parents[1] / "model_repository",
        metavar="FOLDER",
        help="default: the project's model_repository",
    )
    for name, port in DEFAULT_PORTS.items():
        variable = f"{name.upper()}_PORT"
        parser.add_argument(
            f"--{name}-port",
            type=int,
            default=os.environ.get(variable) or port,
            metavar="PORT",
            help=f"default: the environment's {variable}, else {port}; 0 picks a free one",
        )
    parser.add_argument(
        "--log",
        type=Path,
        metavar="FILE",
        help="keep the server's whole log here (default: a temporary file)",
    )
    parser.add_argument(
        "--start-timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="how long models may load (default: %(default).0f)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
