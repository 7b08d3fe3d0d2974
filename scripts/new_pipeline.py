"""Write the four model folders that serve an ONNX classifier with this bundle's code.

The new folders are derived from those of ResNet50: same Python adapters, same limits, same result
format; names, shapes, recipe and labels are the classifier's own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from common import manifest
from common.errors import ConfigurationError
from common.parameters import RESIZE_MODES
from scaffold import ScaffoldError, folders, recipes
from scaffold.classifier import read_classifier
from scaffold.configs import TEMPLATE

PROJECT_ROOT = Path(__file__).resolve().parent.parent
DEFAULT_REPOSITORY = PROJECT_ROOT / "model_repository"

EXAMPLE = """example:
  python scripts/new_pipeline.py flowers --onnx flowers.onnx \\
      --labels en=flowers_en.json --labels zh=flowers_zh.json \\
      --resize 256 --crop 224 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225

FILE.json beside FILE.onnx (or manifest.json), written by an export script of this bundle, supplies
the recipe; options override it.
"""


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(f"new-pipeline: {text}", file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> tuple[dict[str, object], str]:
    """Write the pipeline; what it is, and what was done. ScaffoldError, ConfigurationError."""
    if options.name == TEMPLATE:
        raise ScaffoldError(f"{TEMPLATE} is the template itself: choose another name")
    if len(dict(options.labels)) != len(options.labels):
        raise ScaffoldError("--labels names a language twice; a FILE without LANG= is en")
    classifier = read_classifier(options.onnx, options.crop, options.output_name)
    exported = recipes.exported_manifest(options.onnx)
    recipe = recipes.choose(options, classifier, exported)
    pipeline = folders.Pipeline(
        options.name, options.onnx, classifier, recipe, dict(options.labels), options.groups
    )
    repository = options.repository.resolve()
    waiting = partial(say, f"waiting for another run on {repository}")
    with (
        manifest.exclusive(repository, on_wait=waiting),
        manifest.staging(repository, repository.parent) as staging,
    ):
        folders.build(pipeline, exported, DEFAULT_REPOSITORY, staging)
        outcome = folders.install(pipeline, staging, repository, force=options.force)
    summary = {
        "pipeline": options.name,
        "models": pipeline.model_names,
        "classes": classifier.class_count,
        "input": "UINT8 HWC" if classifier.takes_pixels else "FP32 CHW",
        "languages": list(pipeline.labels),
        "recipe": recipe.to_json(),
    }
    return summary, outcome


def print_table(summary: dict[str, object]) -> None:
    """The result for people, on stdout."""
    table = Table(show_header=False)
    for key, value in summary.items():
        parts = value.items() if isinstance(value, dict) else None
        text = ", ".join(f"{k} {v}" for k, v in parts) if parts else value
        table.add_row(key, "\n".join(text) if isinstance(text, list) else str(text))
    Console().print(table)


def pipeline_name(text: str) -> str:
    """A prefix that Triton, metrics and file systems all take."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: use a-z, 0-9 and single _, a letter first")
    return text


def label_file(text: str) -> tuple[str, Path]:
    """``LANG=FILE``, or a plain FILE, which is English."""
    match = re.fullmatch(r"([A-Za-z]{2,3}(?:-[A-Za-z0-9]+)*)=(.+)", text)
    return (match[1].lower(), Path(match[2])) if match else ("en", Path(text))


def triple(text: str) -> tuple[float, ...]:
    """Three numbers with commas between."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != 3:
        raise argparse.ArgumentTypeError(f"{text!r}: three numbers, as in 0.485,0.456,0.406")
    return values


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; a wrong one exits with 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", type=pipeline_name, help="prefix of the four model names")
    parser.add_argument("--onnx", type=Path, required=True, help="the classifier, logits out")
    parser.add_argument(
        "--labels",
        type=label_file,
        action="append",
        required=True,
        metavar="[LANG=]FILE",
        help="JSON list of class names; repeat per language, the default language first",
    )
    parser.add_argument("--groups", type=Path, help="JSON object of class groups")
    parser.add_argument("--resize", type=int, metavar="PX", help="side after resizing")
    parser.add_argument("--crop", type=int, metavar="PX", help="side of the network's input")
    parser.add_argument("--resize-mode", choices=RESIZE_MODES)
    parser.add_argument("--mean", type=triple, metavar="R,G,B", help="on the 0..1 scale")
    parser.add_argument("--std", type=triple, metavar="R,G,B", help="on the 0..1 scale")
    parser.add_argument("--output-name", help="the logits, where the graph has several outputs")
    parser.add_argument("--repository", type=Path, default=DEFAULT_REPOSITORY, metavar="DIR")
    parser.add_argument("--force", action="store_true", help="replace a pipeline of that name")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 0: written or up to date; 2: the classifier, the labels or the place do not fit."""
    options = parse_arguments(arguments)
    try:
        summary, outcome = run(options)
    except (ScaffoldError, ConfigurationError, manifest.ManifestError, OSError) as error:
        say(str(error))
        return 2
    say(f"{options.name}: {outcome}")
    if options.json:
        print(json.dumps(summary))
    else:
        print_table(summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
