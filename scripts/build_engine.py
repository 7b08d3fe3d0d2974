"""Build the TensorRT engine of every pipeline that has configs/tensorrt.pbtxt, or check it.

An engine is valid for one TensorRT version, GPU model, driver branch and model.onnx. Those stand in
manifest.json; while they match nothing is done, and where they do not the engine is rebuilt.
Precision is FP16 with FP32 outputs. The new plan is run once and compared with ONNX Runtime, and
only then replaces the old one.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from common import manifest
from engine import EngineError, EnvironmentProblem, fingerprint, trtexec
from engine.host import Gpu, Trtexec, find_trtexec, probe_trtexec, query_gpus
from engine.target import Target, find_targets

PROJECT_ROOT = Path(__file__).resolve().parent.parent

EXAMPLE = """examples:
  python scripts/build_engine.py                       # build what is missing or does not match
  python scripts/build_engine.py --check               # before serving: does it fit this host?
  python scripts/build_engine.py --dry-run             # the exact trtexec command; needs no GPU
"""


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(f"build-engine: {text}", file=sys.stderr, flush=True)


def dry_run(target: Target) -> dict[str, Any]:
    """The trtexec command that a build would run, for the trtexec found here or TensorRT 10."""
    tool = probe_trtexec() if find_trtexec() else trtexec.ASSUMED
    if tool is trtexec.ASSUMED:
        say("no trtexec here: showing the command for TensorRT 10")
    staging = PROJECT_ROOT / ".staging"
    command = trtexec.build_command(
        tool,
        target.profile,
        staging / "model.fp16.onnx",
        staging / manifest.PLAN_NAME,
        staging / "timing.cache",
    )
    return {"pipeline": target.pipeline, "command": command}


def check(target: Target, tool: Trtexec, gpus: list[Gpu]) -> dict[str, Any]:
    """Whether a plan may be served here: ``problems`` is empty when it may."""
    problems = fingerprint.host_problems(
        target.folder,
        target.profile,
        tool,
        target.serving_gpus(gpus),
        trtexec.recipe_flags(tool),
    )
    return {"pipeline": target.pipeline, "folder": str(target.folder), "problems": problems}


def build(target: Target, tool: Trtexec, gpus: list[Gpu], force: bool) -> dict[str, Any]:
    """Bring a pipeline's plan up to date; its fingerprint and ``outcome``."""
    if not target.folder.is_dir():
        raise EnvironmentProblem(f"{target.folder} does not exist: make export-onnx")
    with manifest.exclusive(
        target.folder, on_wait=lambda: say(f"waiting for another job in {target.folder}")
    ):
        found = check(target, tool, gpus)["problems"]
        if not found and not force:
            return {**manifest.read(target.folder)["plan"], "outcome": "up to date"}
        for problem in found:
            say(f"{target.pipeline}: {problem}")
        # The build needs onnx and onnxruntime, which the serving container does not have.
        from engine.building import build_plan

        with manifest.staging(target.folder, PROJECT_ROOT) as staging:
            made = build_plan(target, tool, target.serving_gpus(gpus)[0], staging, say)
        return {**made, "outcome": "built"}


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; a wrong one exits with 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repository",
        type=Path,
        default=PROJECT_ROOT / "model_repository",
        help="the model repository (default: the project's)",
    )
    parser.add_argument(
        "--pipeline", help="only this pipeline, as in resnet50 (default: all with TensorRT)"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="only report; exit 1 on a mismatch")
    mode.add_argument("--dry-run", action="store_true", help="only print the trtexec command")
    mode.add_argument("--force", action="store_true", help="rebuild also what matches")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """Do what the command line asks; results per pipeline and the exit code."""
    targets = find_targets(options.repository, options.pipeline)
    if options.dry_run:
        return [dry_run(target) for target in targets], 0
    tool, gpus = probe_trtexec(), query_gpus()
    if options.check:
        results = [check(target, tool, gpus) for target in targets]
        return results, int(any(result["problems"] for result in results))
    return [
        {"pipeline": target.pipeline, **build(target, tool, gpus, options.force)}
        for target in targets
    ], 0


def show(results: list[dict[str, Any]]) -> None:
    """The results for people, on stdout."""
    for result in results:
        if "command" in result:
            print(trtexec.command_text(result["command"]))
        elif "problems" in result:
            for problem in result["problems"]:
                print(f"{result['pipeline']}: {problem}; {fingerprint.REBUILD}")
            if not result["problems"]:
                print(f"{result['pipeline']}: the engine fits this host")
        else:
            print(
                f"{result['pipeline']}: {result['outcome']}, {result['bytes'] / 1e6:.1f} MB, "
                f"TensorRT {result['tensorrt']} on {result['gpu']} ({result['sha256'][:12]})"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: built, up to date or fits; 1: no engine or a mismatch; 2: environment or usage."""
    options = parse_arguments(arguments)
    # docker compose stop sends SIGTERM: leave through the clean-up, taking trtexec along.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        results, code = run(options)
    except EngineError as error:
        say(str(error))
        return 1
    except (EnvironmentProblem, manifest.ManifestError) as error:
        say(str(error))
        return 2
    except OSError as error:
        say(f"cannot write {error.filename or 'a file'}: {error.strerror}; the old engine is kept")
        return 2
    except KeyboardInterrupt:
        say("interrupted; the old engine is kept")
        return 130
    if options.json:
        print(json.dumps(results))
    else:
        show(results)
    return code


def _terminate(signal_number: int, _frame: object) -> NoReturn:
    say("stopped; the old engine is kept")
    sys.exit(128 + signal_number)


if __name__ == "__main__":
    sys.exit(main())
