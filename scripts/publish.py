"""Release new weights, and labels with them, on a running server without a failed request.

publish checks an ONNX file, compares it with the version that serves, loads it beside that one,
switches all traffic at once, and goes back by itself when anything is wrong. rollback returns to
the version before. Works on the embedded server and on the Compose stack alike.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

STARTED_S = time.time()

try:
    from rich.console import Console
    from rich.table import Table

    from common.errors import ConfigurationError
    from common.manifest import ManifestError
    from doctor_checks.project import Project
    from embedded.preflight import HOST
    from engine import EnvironmentProblem
    from new_pipeline import label_file
    from releasing import ReleaseRefused
    from releasing.candidate import Candidate
    from releasing.listing import listed, print_versions
    from releasing.progress import say
    from releasing.publication import Publication
    from releasing.release import Releaser
    from releasing.rollback import roll_back
    from releasing.server import Server, read_key
    from releasing.shadow import Limits
    from releasing.versions import KEEP_VERSIONS, Versions
    from scaffold import ScaffoldError
except ModuleNotFoundError as missing:
    print(
        f"publish: {missing}: use .venv/bin/python, or pip install -e '.[client,onnx]'",
        file=sys.stderr,
    )
    sys.exit(2)

PROJECT_ROOT = Path(__file__).resolve().parent.parent

EXAMPLE = """example:
  python scripts/publish.py publish new/model.onnx
  python scripts/publish.py publish new.onnx --labels en=en.json --labels zh=zh.json \\
      --groups groups.json --force "twelve classes were renamed"
  python scripts/publish.py rollback --reason "drift on mobile uploads"
  python scripts/publish.py versions --json

What a release is, each step and each refusal: docs/releases.md.
"""


def publish(options: argparse.Namespace, server: Server) -> dict[str, Any]:
    """Release options.onnx; the record."""
    candidate = Candidate(
        options.onnx, options.manifest, options.same_recipe, dict(options.labels), options.groups
    )
    limits = Limits(options.min_agreement, options.max_distance)
    publication = Publication(
        _releaser(options, server),
        candidate,
        options.images,
        limits,
        force=options.force,
        keep=options.keep,
    )
    return publication.run()


def rollback(options: argparse.Namespace, server: Server) -> dict[str, Any]:
    """Return to the version before; the record."""
    return roll_back(_releaser(options, server), options.images, options.reason)


def _releaser(options: argparse.Namespace, server: Server) -> Releaser:
    versions = Versions(options.repository, options.pipeline)
    server.check()
    return Releaser(versions, server, say, STARTED_S)


def versions(options: argparse.Namespace, server: Server) -> dict[str, Any]:
    """What is on disk, what is loaded, what was released when."""
    return listed(Versions(options.repository, options.pipeline), server)


def show(record: dict[str, Any]) -> None:
    """A release record for people, on stdout."""
    table = Table(show_header=False)
    for key, value in record.items():
        text = json.dumps(value) if isinstance(value, dict) else value
        if value is not None:
            table.add_row(key, str(text))
    Console().print(table)
    say(
        f"version {record['to']} answers, {record['answering_s']} s after the command: "
        f"{record['loading_s']} s of loading, {record['own_s']} s of checking and switching"
    )


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with defaults from .env; a wrong one exits with 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    new = _command(commands, "publish", publish, "release an ONNX file as the next version")
    new.add_argument("onnx", type=Path, metavar="ONNX")
    new.add_argument(
        "--labels",
        type=label_file,
        action="append",
        default=[],
        metavar="[LANG=]FILE",
        help="new class names, which go live with the weights; once for each served language",
    )
    new.add_argument("--groups", type=Path, help="JSON object of class groups, with --labels")
    new.add_argument("--manifest", type=Path, help="default: FILE.json or manifest.json beside")
    new.add_argument(
        "--same-recipe",
        action="store_true",
        help="without a manifest: the weights were trained with the live preprocessing",
    )
    limits = Limits()
    new.add_argument(
        "--min-agreement",
        type=float,
        default=limits.min_agreement,
        help=f"share of pictures with the same best class (default: {limits.min_agreement})",
    )
    new.add_argument(
        "--max-distance",
        type=float,
        default=limits.max_distance,
        help=f"mean 1 - cosine of the logits (default: {limits.max_distance})",
    )
    new.add_argument("--force", metavar="REASON", help="release although it is too different")
    new.add_argument(
        "--keep",
        type=_positive,
        default=KEEP_VERSIONS,
        help=f"releases that stay on disk, version 1 besides (default: {KEEP_VERSIONS})",
    )
    back = _command(commands, "rollback", rollback, "serve the version before the newest")
    back.add_argument("--reason", help="for the record")
    for command in (new, back):
        command.add_argument(
            "--images",
            action="append",
            default=[],
            metavar="PATH",
            help="pictures to try (file, folder, pattern); default: bundled photographs",
        )
    _command(commands, "versions", versions, "what is on disk, loaded, released")
    return parser.parse_args(arguments)


def _command(
    commands: Any, name: str, run: Callable[..., dict[str, Any]], text: str
) -> argparse.ArgumentParser:
    settings = Project.load(PROJECT_ROOT, os.environ).settings
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    parser.add_argument("--pipeline", default="resnet50", help="default: resnet50")
    parser.add_argument(
        "--repository", type=Path, default=PROJECT_ROOT / "model_repository", metavar="DIR"
    )
    address = f"{_host(settings.get('BIND_ADDRESS', ''))}:{settings.get('GRPC_PORT', '8001')}"
    parser.add_argument(
        "--grpc-url", default=address, metavar="HOST:PORT", help=f"server (default: {address})"
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        default=PROJECT_ROOT / "secrets" / "triton_admin_key",
        help="admin key of the server (default: secrets/triton_admin_key)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _host(bind_address: str) -> str:
    return HOST if bind_address in ("", "0.0.0.0", "::") else bind_address


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: done; 1: refused or rolled back, the old version serves; 2: usage, environment."""
    options = parse_arguments(arguments)
    # docker compose or a CI job that gives up sends SIGTERM: leave through the clean-up.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        server = Server(options.grpc_url, read_key(options.key_file))
        try:
            result = options.run(options, server)
        finally:
            server.close()
    except ReleaseRefused as error:
        say(str(error))
        return 1
    except (EnvironmentProblem, ConfigurationError, ManifestError, ScaffoldError) as error:
        say(str(error))
        return 2
    except OSError as error:
        say(f"cannot write {error.filename or 'a file'}: {error.strerror or error}")
        return 2
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    if options.json:
        print(json.dumps(result))
    elif options.command == "versions":
        print_versions(result)
    else:
        show(result)
    return 0


def _terminate(signal_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt(f"signal {signal_number}")


if __name__ == "__main__":
    sys.exit(main())
