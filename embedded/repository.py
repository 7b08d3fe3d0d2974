"""What the launcher needs to know of a model repository: its configurations and ensembles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from embedded.errors import PreflightError


@dataclass(frozen=True)
class RepositoryModel:
    """One model folder and the configuration that the server will use for it."""

    folder: Path
    config: Any  # model_config_pb2.ModelConfig

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_ensemble(self) -> bool:
        return self.name.endswith("_ensemble")

    def missing_model_file(self) -> Path | None:
        """Return the ONNX file this model needs and no version folder holds, if there is one."""
        if self.config.backend != "onnxruntime":
            return None
        name = self.config.default_model_filename or "model.onnx"
        versions = [path for path in self.folder.iterdir() if path.name.isdigit()]
        if any((version / name).is_file() for version in versions):
            return None
        return max(versions, default=self.folder / "1") / name


def read_repository(folder: Path, config_name: str) -> list[RepositoryModel]:
    """Return the models of `folder`, sorted by name, each as `config_name` configures it."""
    if not folder.is_dir():
        raise PreflightError(f"the model repository {folder} does not exist")
    models = []
    for model in sorted(path for path in folder.iterdir() if path.is_dir()):
        alternate = model / "configs" / f"{config_name}.pbtxt"
        source = alternate if alternate.is_file() else model / "config.pbtxt"
        models.append(RepositoryModel(model, _parse(source)))
    if not models:
        raise PreflightError(f"the model repository {folder} holds no model")
    return models


def _parse(source: Path) -> Any:
    try:
        text = source.read_text(encoding="utf-8")
        return text_format.Parse(text, model_config_pb2.ModelConfig())
    except OSError as error:
        raise PreflightError(f"cannot read {source}: {error.strerror}") from None
    except text_format.ParseError as error:
        raise PreflightError(f"{source} is not a valid model configuration: {error}") from None
