"""Every model configuration, read with Triton's own schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from doctor_checks.finding import Finding, problem
from doctor_checks.project import Project

CHECK_PARSE = "config parses"

# What people write, by the words of protobuf's message (it quotes the line), and what to write.
_USUAL_MISTAKES = (
    (r"dynamic_batching\W+\[", "write dynamic_batching { … }: it is one block, not a list"),
    (r"version_policy", "write version_policy: { latest: { num_versions: 1 } }"),
    (r"value: *[\"'\d].*Expected \"\{\"", 'write value: { string_value: "…" }'),
    (r'Expected ","', "a comma is missing between two { } of a list"),
    (r"no field named", "check the spelling against Triton's model configuration"),
    (r"Expected \"\}\"", "a brace is not closed"),
)


@dataclass(frozen=True)
class ConfigFile:
    """One parsed file; ``variant`` is empty for config.pbtxt, else the name under configs/."""

    model: str
    variant: str
    label: str
    config: Any  # model_config_pb2.ModelConfig


@dataclass(frozen=True)
class ConfigSet:
    """All parsed files, and the models of which one does not parse."""

    files: tuple[ConfigFile, ...]
    unreadable: frozenset[str]
    findings: tuple[Finding, ...]

    def base(self, model: str) -> Any | None:
        """A model's config.pbtxt, or None."""
        return next((f.config for f in self.files if (f.model, f.variant) == (model, "")), None)

    def models(self) -> list[str]:
        """Names of all models with a config.pbtxt."""
        return [file.model for file in self.files if not file.variant]


def read_configs(project: Project) -> ConfigSet:
    """Parse config.pbtxt and configs/*.pbtxt of every model folder."""
    files: list[ConfigFile] = []
    unreadable: set[str] = set()
    findings: list[Finding] = []
    for folder in sorted(path for path in project.repository.glob("*") if path.is_dir()):
        base = folder / "config.pbtxt"
        if not base.is_file():
            findings.append(
                problem(
                    CHECK_PARSE,
                    f"model_repository/{folder.name} has no config.pbtxt, and every folder here "
                    "counts as a model",
                    "move it out of the model repository, or give it a config.pbtxt",
                )
            )
            continue
        for path in [base, *sorted((folder / "configs").glob("*.pbtxt"))]:
            label = str(path.relative_to(project.repository))
            variant = path.stem if path != base else ""
            try:
                config = text_format.Parse(
                    path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig()
                )
            except (text_format.ParseError, UnicodeDecodeError, OSError) as error:
                unreadable.add(folder.name)
                findings.append(
                    problem(CHECK_PARSE, f"{label} is not readable: {error}", _hint(str(error)))
                )
                continue
            files.append(ConfigFile(folder.name, variant, label, config))
    return ConfigSet(tuple(files), frozenset(unreadable), tuple(findings))


def check_parse(project: Project) -> list[Finding]:
    """Files that Triton's ModelConfig refuses, and folders that are no model."""
    return list(read_configs(project).findings)


def type_name(data_type: int) -> str:
    """A data type as it is written in a configuration, as in TYPE_FP32."""
    return model_config_pb2.DataType.Name(data_type)


def _hint(error: str) -> str:
    hints = (hint for words, hint in _USUAL_MISTAKES if re.search(words, error))
    return next(hints, "correct the line named (line:column)")
