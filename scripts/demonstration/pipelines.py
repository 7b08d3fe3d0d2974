"""The two pipelines of the demo: ResNet50, and a foreign classifier over the same code."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from common import manifest
from demonstration.steps import DemoError, Steps, run_script

PROJECT_ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = PROJECT_ROOT / "model_repository"
RESNET50 = "resnet50"
EFFICIENTNET = "efficientnet_lite0"
TITLES = {RESNET50: "ResNet50", EFFICIENTNET: "EfficientNet-Lite0"}
STEP_COUNT = 3
# Where the published weights cannot be fetched the plumbing is still worth seeing.
FALLBACK_WEIGHTS = "random:0"


@dataclass(frozen=True)
class ServedPipeline:
    """A pipeline and where its weights come from; ``meaningful`` is False for random ones."""

    name: str
    weights: str
    meaningful: bool

    @property
    def ensemble(self) -> str:
        """The model that clients ask."""
        return f"{self.name}_ensemble"

    @property
    def title(self) -> str:
        """What it is, for people; random weights are marked."""
        known = f"{TITLES[self.name]}, weights {self.weights}"
        return known if self.meaningful else f"{known} (random weights: labels are meaningless)"


def prepare(steps: Steps) -> None:
    """Bring both pipelines up to date in the model repository. DemoError."""
    with steps.step("export ResNet50") as outcome:
        chosen = os.environ.get("WEIGHTS")
        weights = ("--weights", chosen) if chosen else ()
        made = run_script("export_onnx.py", *weights, "--fallback", FALLBACK_WEIGHTS)
        outcome.append(made["weights"]["name"])
    onnx = PROJECT_ROOT / "build" / f"{EFFICIENTNET}.onnx"
    with steps.step("export EfficientNet-Lite0") as outcome:
        made = run_script("export_efficientnet.py", "--output", str(onnx))
        outcome.append(made["weights"]["name"])
    with steps.step(f"write the pipeline {EFFICIENTNET}"):
        names = REPOSITORY / f"{RESNET50}_postprocess" / "1"
        labels = [
            f"--labels={language}={names}/labels_{language}.json" for language in ("en", "zh")
        ]
        groups = f"--groups={names / 'groups.json'}"
        # Its folders are made, not edited: those of an older checkout may be replaced.
        run_script("new_pipeline.py", EFFICIENTNET, f"--onnx={onnx}", *labels, groups, "--force")


def served() -> list[ServedPipeline]:
    """Both pipelines as the repository holds them, those with real answers first. DemoError."""
    found = [_described(name) for name in TITLES]
    return sorted(found, key=lambda pipeline: not pipeline.meaningful)


def _described(name: str) -> ServedPipeline:
    folders = (REPOSITORY / f"{name}_inference").iterdir()
    newest = max((f for f in folders if f.name.isdigit()), key=lambda f: int(f.name))
    try:
        made = manifest.read(newest)
    except manifest.ManifestError as error:
        raise DemoError(str(error)) from None
    return ServedPipeline(name, made["weights"]["name"], made["meaningful"])
