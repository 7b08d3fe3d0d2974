"""trtexec command lines that TensorRT 10 and 11 both take, and the running of them."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from engine import EngineError
from engine.host import Trtexec
from engine.profile import EngineProfile

# What --dry-run assumes where no trtexec can be asked.
ASSUMED = Trtexec(
    "trtexec", "10.0.0", frozenset({"--stronglyTyped", "--skipInference", "--timingCacheFile"})
)
_TAIL_LINES = 20
_REPORT_EVERY_S = 15.0


def recipe_flags(tool: Trtexec) -> list[str]:
    """The flags that decide what the plan computes; raises EngineError before TensorRT 10.

    Precision lives in the graph, so its types must be obeyed: on request in TensorRT 10, always in
    11, where the flag may be gone from the help.
    """
    if "--stronglyTyped" in tool.options:
        return ["--stronglyTyped"]
    if tool.major >= 11:
        return []
    raise EngineError(
        f"TensorRT {tool.version} has no --stronglyTyped and would not keep the graph's FP16 "
        "types: use an NGC_RELEASE with TensorRT 10 or newer"
    )


def build_command(
    tool: Trtexec, profile: EngineProfile, onnx: Path, plan: Path, timing_cache: Path
) -> list[str]:
    """The command that turns an FP16-typed ONNX into a plan."""
    command = [tool.path, f"--onnx={onnx}", f"--saveEngine={plan}"]
    command += [
        f"--minShapes={profile.spec(1)}",
        f"--optShapes={profile.spec(profile.opt_batch)}",
        f"--maxShapes={profile.spec(profile.max_batch)}",
    ]
    command += recipe_flags(tool)
    if "--skipInference" in tool.options:
        command.append("--skipInference")
    if "--timingCacheFile" in tool.options:
        command.append(f"--timingCacheFile={timing_cache}")
    return command


def run_command(
    tool: Trtexec, profile: EngineProfile, plan: Path, *, batch: int, inputs: Path, outputs: Path
) -> list[str]:
    """The command that runs a plan once on a file of raw input bytes and exports its outputs."""
    command = [
        tool.path,
        f"--loadEngine={plan}",
        f"--shapes={profile.spec(batch)}",
        f"--loadInputs={profile.input_name}:{inputs}",
        f"--exportOutput={outputs}",
        "--iterations=1",
        "--warmUp=0",
        "--duration=0",
    ]
    # TensorRT 11 leaves the copies between host and device out unless asked.
    if "--includeDataTransfers" in tool.options:
        command.append("--includeDataTransfers")
    return command


def run(command: list[str], log: Path, step: str, report: Callable[[str], None]) -> float:
    """Run trtexec with its output in ``log``; returns the seconds it took.

    ``report`` gets a line about every 15 s. Raises EngineError with the end of the output. The
    process ends with this one, also when this one is interrupted.
    """
    started = time.monotonic()
    with log.open("wb") as stream:
        try:
            process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        except OSError as error:
            raise EngineError(f"{step}: {command[0]} does not start: {error}") from error
        try:
            _wait(process, started, step, report)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode != 0:
        raise EngineError(
            f"{step}: trtexec ended with {process.returncode}; the end of its output:\n"
            + tail_of(log)
        )
    return time.monotonic() - started


def tail_of(log: Path) -> str:
    """The last lines of a log, indented."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join("    " + line for line in lines[-_TAIL_LINES:]) or "    (no output)"


def _wait(
    process: subprocess.Popen[bytes], started: float, step: str, report: Callable[[str], None]
) -> None:
    report(f"{step} ...")
    while True:
        try:
            process.wait(_REPORT_EVERY_S)
            return
        except subprocess.TimeoutExpired:
            report(f"{step}: {time.monotonic() - started:.0f} s, still working")


def command_text(command: list[str]) -> str:
    """The command as it can be pasted into a shell."""
    return (" \\" + os.linesep + "    ").join(shlex.quote(part) for part in command)
