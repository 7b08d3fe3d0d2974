"""Labels that change with the weights: a postprocess version of the same number."""

from __future__ import annotations

import shutil
from pathlib import Path

from common.errors import ConfigurationError
from common.parameters import PostprocessConfig, parse_postprocess
from common.postprocess.labels import Labels, load_labels
from releasing import ReleaseRefused
from releasing.candidate import Candidate, Staged
from releasing.versions import POSTPROCESS, Versions
from scaffold import configs


def live_config(versions: Versions) -> PostprocessConfig:
    """The postprocess configuration, which labels of every version must fit."""
    config = configs.read_config(versions.model(POSTPROCESS) / "config.pbtxt")
    return parse_postprocess(configs.parameters_of(config))


def stage(candidate: Candidate, staged: Staged, versions: Versions) -> None:
    """Write a postprocess version with the candidate's labels; nothing where it brings none."""
    if not candidate.labels:
        if candidate.groups:
            raise ReleaseRefused("--groups without --labels: give the labels that belong to them")
        return
    config = live_config(versions)
    _require_all(candidate, config, versions)
    live = versions.folder(POSTPROCESS, versions.newest.labels)
    folder = staged.folder(versions.pipeline, POSTPROCESS)
    # Byte code and times come along: a stub that finds them fresh writes nothing into the folder.
    shutil.copytree(live, folder)
    for language, name in config.label_files.items():
        _copy(candidate.labels[language], folder / name)
    if config.group_file and candidate.groups:
        _copy(candidate.groups, folder / config.group_file)
    read(folder, config, staged.classifier.class_count)


def read(folder: Path, config: PostprocessConfig, class_count: int) -> Labels:
    """The labels of a version folder; ReleaseRefused where the model would refuse them."""
    try:
        return load_labels(folder, config, class_count)
    except ConfigurationError as error:
        raise ReleaseRefused(f"labels: {error}") from None


def _require_all(candidate: Candidate, config: PostprocessConfig, versions: Versions) -> None:
    given, served = set(candidate.labels), set(config.label_files)
    if given != served:
        raise ReleaseRefused(
            f"--labels for {', '.join(sorted(given))}, but the pipeline serves "
            f"{', '.join(sorted(served))}: give each language once"
        )
    if config.group_file and candidate.groups is None:
        live = versions.folder(POSTPROCESS, versions.newest.labels) / config.group_file
        raise ReleaseRefused(
            f"new labels need --groups, for groups name classes by number: {live} "
            "if its numbers still fit"
        )


def _copy(source: Path, target: Path) -> None:
    if not source.is_file():
        raise ReleaseRefused(f"{source} does not exist")
    shutil.copyfile(source, target)
