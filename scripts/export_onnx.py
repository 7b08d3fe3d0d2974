"""Export torchvision's ResNet50 to the ONNX file that Triton serves, checked against PyTorch."""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from common import manifest
from exporting import weights as weight_sources
from exporting.weights import DownloadError, Source, WeightsError

PROJECT_ROOT = Path(__file__).resolve().parent.parent
PIPELINE = "resnet50"
DEFAULT_OUTPUT = PROJECT_ROOT / "model_repository" / f"{PIPELINE}_inference" / "1"
# The exporter's floor and ceiling in this PyTorch; 20 is the newest that every supported
# ONNX Runtime and TensorRT release reads.
OPSETS = range(18, 24)
DEFAULT_OPSET = 20
# Raise when the graph changes, so that published exports of the older graph are rebuilt.
EXPORTER_VERSION = 1
TOOLS = ("torch", "torchvision", "onnx", "onnxscript", "onnxruntime")

EXAMPLE = """example:
  python scripts/export_onnx.py --weights IMAGENET1K_V2
  python scripts/export_onnx.py --weights fine_tuned.pth --recipe V2 --json
  python scripts/export_onnx.py --weights random:0      # no network: plumbing only
"""


class ParityError(Exception):
    """The ONNX file answers differently from PyTorch; nothing was published."""


@dataclass(frozen=True)
class Job:
    """One export: from which weights, to which version folder, in which form."""

    source: Source
    output: Path
    opset: int
    precision: str

    @property
    def model_name(self) -> str:
        """The FP16 file is the engine builder's input, never what a server loads."""
        return manifest.MODEL_NAME if self.precision == "fp32" else "model.fp16.onnx"

    @property
    def manifest_name(self) -> str:
        """Each ONNX file has its own manifest; only manifest.json is read when serving."""
        return manifest.MANIFEST_NAME if self.precision == "fp32" else "manifest.fp16.json"


def tool_versions() -> dict[str, str]:
    """Versions of everything that shapes the file; read without importing any of it."""
    return {"exporter": str(EXPORTER_VERSION), **{name: version(name) for name in TOOLS}}


def published(job: Job) -> dict[str, Any] | None:
    """The manifest of an intact export of the job's weights, or None."""
    try:
        found = manifest.read(job.output / job.manifest_name)
    except manifest.ManifestError:
        return None
    model = job.output / job.model_name
    if not job.source.matches(found["weights"]) or not model.is_file():
        return None
    return found if manifest.sha256_of(model) == found["onnx"]["sha256"] else None


def is_current(job: Job, found: dict[str, Any]) -> bool:
    """Whether this very exporter would make the same file again."""
    return (
        found["onnx"].get("opset") == job.opset
        and found.get("tools") == tool_versions()
        and found["recipe"] == job.source.recipe.to_json()
    )


def export(job: Job, staging: Path) -> dict[str, Any]:
    """Build and check the ONNX file in ``staging``; its manifest. WeightsError, ParityError."""
    # Seconds to import, so only when there is something to do.
    from exporting import graph, parity

    source = job.source
    classifier, weights_sha256 = graph.build_resnet50(source)
    reference = graph.ServedClassifier(classifier, source.recipe, "fp32").eval()
    model = reference
    if job.precision == "fp16":
        model = graph.ServedClassifier(copy.deepcopy(classifier), source.recipe, "fp16").eval()
    path = staging / job.model_name
    proto = graph.export(
        model,
        parity.as_tensor(parity.noise(2, source.recipe)),
        path,
        opset=job.opset,
        metadata={
            "doc": f"torchvision ResNet50, weights {source.name}, uint8 NHWC in, logits out",
            "pipeline": PIPELINE,
            "weights": source.name,
            "weights_sha256": weights_sha256,
            "precision": job.precision,
        },
    )
    side = source.recipe.crop_size
    graph.require_signature(proto, ("UINT8", [side, side, 3]), ("FLOAT", [graph.CLASS_COUNT]))
    figures = parity.compare_served(classifier, parity.torch_run(reference), source.recipe, path)
    if not figures.is_good(meaningful=source.meaningful):
        raise ParityError(
            f"the ONNX file differs from PyTorch ({figures.summary()}; "
            f"needed: cosine >= {parity.COSINE_MIN} and the same top-1): nothing was published"
        )
    return {
        "pipeline": PIPELINE,
        "weights": {"name": source.name, "sha256": weights_sha256},
        "meaningful": source.meaningful,
        "recipe": source.recipe.to_json(),
        "onnx": {
            "sha256": manifest.sha256_of(path),
            "opset": graph.opset_of(proto),
            "ir_version": proto.ir_version,
            "bytes": path.stat().st_size,
        },
        "precision": job.precision,
        "tools": tool_versions(),
        "parity": figures.to_json(),
    }


def publish(job: Job, made: dict[str, Any], staging: Path) -> None:
    """Put the model, then its manifest, into the version folder."""
    if job.precision == "fp32":
        # A version folder holds one set of weights: an engine of another one has to go first.
        (job.output / manifest.PLAN_NAME).unlink(missing_ok=True)
    manifest.write(made, staging / job.manifest_name)
    manifest.publish([staging / job.model_name, staging / job.manifest_name], job.output)


def run(job: Job, fallback: Source | None = None) -> tuple[dict[str, Any], str]:
    """Bring the version folder up to date; its manifest and what was done, in one line."""
    job.output.mkdir(parents=True, exist_ok=True)
    with manifest.exclusive(
        job.output, on_wait=lambda: say(f"waiting for another export of {job.output}")
    ):
        found = published(job)
        if found and is_current(job, found):
            return found, "up to date"
        try:
            source = weight_sources.fetch(job.source)
        except DownloadError as error:
            if found:
                return found, f"kept as it is, made by other tool versions: {error}"
            if fallback is None:
                raise
            say(f"{error.cause}; continuing with {fallback.name}: its answers are meaningless")
            job = Job(fallback, job.output, job.opset, job.precision)
            found = published(job)
            if found and is_current(job, found):
                return found, "up to date"
            source = fallback
        job = Job(source, job.output, job.opset, job.precision)
        say(f"exporting {source.name} to {job.output / job.model_name} (about half a minute)")
        with manifest.staging(job.output, PROJECT_ROOT) as staging:
            made = export(job, staging)
            publish(job, made, staging)
        return made, "exported"


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(f"export-onnx: {text}", file=sys.stderr, flush=True)


def print_table(made: dict[str, Any], job: Job) -> None:
    """The result for people, on stdout."""
    figures = made["parity"]
    table = Table(show_header=False)
    meaning = "" if made["meaningful"] else "  (random: answers are meaningless)"
    table.add_row("file", job.model_name)
    table.add_row("weights", made["weights"]["name"] + meaning)
    table.add_row("recipe", "resize {resize_size}, crop {crop_size}".format(**made["recipe"]))
    table.add_row("size", f"{made['onnx']['bytes'] / 1e6:.1f} MB, opset {made['onnx']['opset']}")
    table.add_row(
        "against PyTorch",
        f"cosine >= {figures['cosine_min']:.7f}, largest difference "
        f"{figures['max_abs_logit_diff']:.2g}, top-1 equal {figures['top1_agreement']:.0%} "
        f"of {figures['images']} ({figures['photographs']} photographs)",
    )
    Console().print(table)


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
    parser.add_argument("--opset", type=int, choices=OPSETS, default=DEFAULT_OPSET)
    parser.add_argument(
        "--precision",
        choices=("fp32", "fp16"),
        default="fp32",
        help="fp16 writes model.fp16.onnx, from which the TensorRT engine is built",
    )
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: published or up to date; 1: differs from PyTorch; 2: weights or environment."""
    options = parse_arguments(arguments)
    try:
        source = weight_sources.parse(options.weights, options.recipe)
        fallback = weight_sources.parse(options.fallback) if options.fallback else None
        job = Job(source, options.output, options.opset, options.precision)
        made, outcome = run(job, fallback)
    except ParityError as error:
        say(str(error))
        return 1
    except (WeightsError, OSError) as error:
        say(str(error))
        return 2
    say(f"{options.output}: {outcome}")
    if options.json:
        print(json.dumps(made))
    else:
        print_table(made, job)
    return 0


if __name__ == "__main__":
    sys.exit(main())
