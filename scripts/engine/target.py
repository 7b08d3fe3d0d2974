"""What an engine is built for: a pipeline's inference model and its newest version folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import EnvironmentProblem
from engine.host import Gpu
from engine.profile import EngineProfile, read_profile

_SUFFIX = "_inference"
_CONFIG = Path("configs") / "tensorrt.pbtxt"


@dataclass(frozen=True)
class Target:
    """A pipeline's newest version folder and the profile its plan must have."""

    pipeline: str
    folder: Path
    profile: EngineProfile

    def serving_gpus(self, gpus: Sequence[Gpu]) -> list[Gpu]:
        """The GPUs that Triton loads the plan on; EnvironmentProblem if one is absent."""
        indexes = self.profile.gpu_indexes or range(len(gpus))
        missing = [index for index in indexes if index >= len(gpus)]
        if missing:
            raise EnvironmentProblem(
                f"{self.pipeline}: instance_group names GPU {missing[0]}, this host has "
                f"{len(gpus)} (counted from 0)"
            )
        return [gpus[index] for index in indexes]

    @property
    def build_device(self) -> int:
        """Index of the GPU to build on: the first that serves."""
        return self.profile.gpu_indexes[0] if self.profile.gpu_indexes else 0


def find_targets(repository: Path, pipeline: str | None = None) -> list[Target]:
    """Every pipeline with a TensorRT configuration, or the one named; EnvironmentProblem."""
    names = [pipeline] if pipeline else _pipelines(repository)
    if not names:
        raise EnvironmentProblem(f"no model in {repository} has {_CONFIG}")
    targets = []
    for name in names:
        model = repository / f"{name}{_SUFFIX}"
        targets.append(Target(name, _newest_version(model), read_profile(model / _CONFIG)))
    return targets


def _pipelines(repository: Path) -> list[str]:
    models = sorted(path.parent.parent for path in repository.glob(f"*{_SUFFIX}/{_CONFIG}"))
    return [model.name.removesuffix(_SUFFIX) for model in models]


def _newest_version(model: Path) -> Path:
    # Triton serves the highest number unless a version policy says otherwise.
    numbers = [int(path.name) for path in model.glob("[1-9]*") if path.name.isdigit()]
    return model / str(max(numbers, default=1))
