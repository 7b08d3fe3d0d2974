"""Serve the model repository in the foreground, on this machine's CPU, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
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
    for ensemble in server.ensembles:
        lines.append(
            f"""curl -s {server.http_url}/v2/models/{ensemble}/generate """
            """-d "{\\"RAW_IMAGE\\": \\"$(base64 -w0 photo.jpg)\\"}\""""
        )
    return "\n".join([*lines, "Ctrl-C stops it."])


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
