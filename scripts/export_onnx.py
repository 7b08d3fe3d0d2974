"""Export torchvision's ResNet50 to the ONNX file that Triton serves, checked against PyTorch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from common import manifest
from exporting import artefact
from exporting import weights as weight_sources
from exporting.artefact import ExportError
from exporting.weights import DownloadError, Source, WeightsError

PROJECT_ROOT = Path(__file__).resolve().parent.parent
PIPELINE = "resnet50"
DEFAULT_OUTPUT = PROJECT_ROOT / "model_repository" / f"{PIPELINE}_inference" / "1"
# What the exporter of this PyTorch can write.
OPSETS = range(18, 24)

EXAMPLE = """example:
  python scripts/export_onnx.py --weights IMAGENET1K_V2
  python scripts/export_onnx.py --weights fine_tuned.pth --recipe V2 --json
  python scripts/export_onnx.py --weights random:0      # no network: plumbing only
"""


@dataclass(frozen=True)
class Job:
    """One export: from which weights, into which version folder, for which operator set."""

    source: Source
    output: Path
    opset: int


def tool_versions() -> dict[str, str]:
    """Versions that shape the file."""
    return artefact.tool_versions("torchvision")


def published(job: Job) -> dict[str, Any] | None:
    """The manifest of an intact export of the job's weights, or None."""
    found = artefact.intact(job.output / manifest.MODEL_NAME, job.output / manifest.MANIFEST_NAME)
    return found if found and job.source.matches(found["weights"]) else None


def is_current(job: Job, found: dict[str, Any]) -> bool:
    """Whether this very exporter would make the same file again."""
    return (
        found["onnx"].get("opset") == job.opset
        and found.get("tools") == tool_versions()
        and found["recipe"] == job.source.recipe.to_json()
    )


def export(job: Job, staging: Path) -> dict[str, Any]:
    """Build and check the ONNX file in ``staging``; its manifest. WeightsError, ExportError."""
    # Seconds to import, so only when there is something to do.
    import torch

    from exporting import graph, parity

    source = job.source
    classifier, weights_sha256 = graph.build_resnet50(source)
    served = graph.ServedClassifier(classifier, source.recipe).eval()
    path = staging / manifest.MODEL_NAME
    proto = graph.export(
        served,
        torch.from_numpy(parity.noise(2, source.recipe)),
        path,
        opset=job.opset,
        metadata={
            "doc": f"torchvision ResNet50, weights {source.name}: uint8 NHWC in, logits out",
            "pipeline": PIPELINE,
            "weights": source.name,
            "weights_sha256": weights_sha256,
        },
    )
    side = source.recipe.crop_size
    graph.require_signature(proto, ("UINT8", [side, side, 3]), ("FLOAT", [graph.CLASS_COUNT]))
    figures = parity.compare_served(classifier, served, source.recipe, path)
    if not figures.is_good(meaningful=source.meaningful):
        raise ExportError(
            f"the ONNX file differs from PyTorch ({figures.summary()}; "
            f"needed: cosine >= {parity.COSINE_MIN} and the same top-1): nothing was published"
        )
    return {
        "pipeline": PIPELINE,
        "weights": {"name": source.name, "sha256": weights_sha256},
        "meaningful": source.meaningful,
        "recipe": source.recipe.to_json(),
        "onnx": artefact.onnx_entry(path, proto),
        "tools": tool_versions(),
        "parity": figures.to_json(),
    }


def publish(job: Job, made: dict[str, Any], staging: Path) -> None:
    """Put the model, then its manifest, into the version folder.

    A version folder holds one set of weights in every format, so an engine stays only if the new
    ONNX file is the very one it was built from.
    """
    plan = kept_plan(job, made)
    if plan:
        made = {**made, "plan": plan}
    else:
        (job.output / manifest.PLAN_NAME).unlink(missing_ok=True)
    manifest.write(made, staging / manifest.MANIFEST_NAME)
    names = (manifest.MODEL_NAME, manifest.MANIFEST_NAME)
    manifest.publish([staging / name for name in names], job.output)


def kept_plan(job: Job, made: dict[str, Any]) -> dict[str, Any] | None:
    """The old manifest's ``plan`` if it belongs to the same ONNX bytes."""
    try:
        old = manifest.read(job.output)
    except manifest.ManifestError:
        return None
    return old.get("plan") if old["onnx"].get("sha256") == made["onnx"]["sha256"] else None


def run(job: Job, fallback: Source | None = None) -> tuple[dict[str, Any], str]:
    """Bring the version folder up to date; its manifest and what was done, in one line."""
    job.output.mkdir(parents=True, exist_ok=True)
    waiting = partial(say, f"waiting for another export to {job.output}")
    with manifest.exclusive(job.output, on_wait=waiting):
        found = published(job)
        if found and is_current(job, found):
            return found, "up to date"
        try:
            job = replace(job, source=weight_sources.fetch(job.source))
        except DownloadError as error:
            if found:
                return found, f"kept, though made by other tool versions: {error.cause}"
            if fallback is None:
                raise
            say(f"{error.cause}; continuing with {fallback.name}, whose answers are meaningless")
            job = replace(job, source=fallback)
            found = published(job)
            if found and is_current(job, found):
                return found, "up to date"
        say(f"exporting {job.source.name}, which takes about half a minute")
        with manifest.staging(job.output, PROJECT_ROOT) as staging:
            publish(job, export(job, staging), staging)
        return manifest.read(job.output), "exported"


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(f"export-onnx: {text}", file=sys.stderr, flush=True)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; a wrong one exits with 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--weights",
        default="IMAGENET1K_V2",
        help="IMAGENET1K_V2 (default), IMAGENET1K_V1, FILE.pth (a state dict) or random:SEED",
    )
    parser.add_argument(
        "--recipe",
        choices=sorted(weight_sources.RECIPES),
        default="V2",
        help="preprocessing that FILE.pth was trained with: V1 resizes to 256, V2 to 232",
    )
    parser.add_argument(
        "--fallback",
        metavar="random:SEED",
        help="weights to export instead when the download fails; marked as meaningless",
    )
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="version folder")
    parser.add_argument("--opset", type=int, choices=OPSETS, default=artefact.DEFAULT_OPSET)
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: published or up to date; 1: differs from PyTorch; 2: weights or environment."""
    options = parse_arguments(arguments)
    try:
        source = weight_sources.parse(options.weights, options.recipe)
        fallback = weight_sources.parse(options.fallback) if options.fallback else None
        job = Job(source, options.output, options.opset)
        made, outcome = run(job, fallback)
    except ExportError as error:
        say(str(error))
        return 1
    except (WeightsError, ImportError, OSError) as error:
        say(str(error))
        return 2
    say(f"{options.output}: {outcome}")
    if options.json:
        print(json.dumps(made))
    else:
        artefact.print_table(made, options.output / manifest.MODEL_NAME)
    return 0


if __name__ == "__main__":
    sys.exit(main())
