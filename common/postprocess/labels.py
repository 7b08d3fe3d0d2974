"""Label and group files: class id → name in each language, group → its classes and names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError
from common.parameters import PostprocessConfig


@dataclass(frozen=True)
class Group:
    """Classes whose probabilities are added up, ascending ids, and the group's name by language."""

    name: str
    class_ids: tuple[int, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Labels:
    """All names the business layer can print."""

    by_language: Mapping[str, tuple[str, ...]]
    default_language: str
    groups: tuple[Group, ...]

    def language(self, tag: str) -> str | None:
        """The language we have for a tag: exact, else by its shorter prefixes (RFC 4647 lookup)."""
        parts = tag.lower().replace("_", "-").split("-")
        for count in range(len(parts), 0, -1):
            candidate = "-".join(parts[:count])
            if candidate in self.by_language:
                return candidate
        return None


def load_labels(folder: Path, config: PostprocessConfig, class_count: int) -> Labels:
    """Read the label and group files of one version folder.

    Raises ConfigurationError where a file is missing, is no list of ``class_count`` names, or a
    group names a class that does not exist or stands in two groups.
    """
    by_language = {
        language: _read_labels(folder / name, language, class_count)
        for language, name in config.label_files.items()
    }
    groups = (
        _read_groups(folder / config.group_file, config, class_count) if config.group_file else ()
    )
    return Labels(by_language, config.default_language, groups)


def _read_json(path: Path, key: str) -> Any:
    try:
        # utf-8-sig: a byte-order mark must not become part of class 0's name.
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigurationError(key, path.name, "a file in the version folder") from None
    except ValueError as error:
        raise ConfigurationError(key, path.name, "a UTF-8 JSON file") from error


def _read_labels(path: Path, language: str, class_count: int) -> tuple[str, ...]:
    key = f"label_files[{language}]"
    names = _read_json(path, key)
    if not isinstance(names, list) or not all(isinstance(n, str) and n.strip() for n in names):
        raise ConfigurationError(key, path.name, "a JSON list of non-empty names")
    if len(names) != class_count:
        raise ConfigurationError(
            key, f"{path.name} with {len(names)} names", f"{class_count} names, one per logit"
        )
    return tuple(name.strip() for name in names)


def _read_groups(path: Path, config: PostprocessConfig, class_count: int) -> tuple[Group, ...]:
    content = _read_json(path, "group_file")
    if not isinstance(content, dict):
        raise ConfigurationError("group_file", path.name, "a JSON object of groups")
    owner: dict[int, str] = {}
    groups = []
    for name, entry in content.items():
        key = f"group_file[{name}]"
        class_ids = entry.get("class_ids") if isinstance(entry, dict) else None
        labels = entry.get("labels") if isinstance(entry, dict) else None
        if not isinstance(class_ids, list) or not class_ids or not isinstance(labels, dict):
            raise ConfigurationError(key, entry, 'an object {"class_ids": […], "labels": {…}}')
        for class_id in class_ids:
            if type(class_id) is not int or not 0 <= class_id < class_count:
                raise ConfigurationError(key, class_id, f"class ids from 0 to {class_count - 1}")
            if class_id in owner:
                raise ConfigurationError(key, class_id, f"no class that {owner[class_id]} holds")
            owner[class_id] = name
        missing = sorted(set(config.label_files) - set(labels))
        if missing:
            raise ConfigurationError(key, labels, f"a label in each language, {missing} too")
        groups.append(Group(name, tuple(sorted(class_ids)), labels))
    return tuple(groups)
