"""Which ResNet50 weights to export, and how to get them. Does not import PyTorch."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from common import manifest
from common.manifest import Recipe

# Connecting, then waiting for the next block of a running transfer.
TIMEOUT_S = (5.0, 30.0)
_BLOCK_BYTES = 1 << 18
_NO_NETWORK_ADVICE = "use --weights FILE.pth, or --weights random:0 to try the plumbing"


class WeightsError(Exception):
    """Weights that cannot be used; the text is one line with cause and fix."""


class DownloadError(WeightsError):
    """Published weights that could not be fetched; ``cause`` is the text without advice."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"{cause}: {_NO_NETWORK_ADVICE}")
        self.cause = cause


@dataclass(frozen=True)
class Source:
    """One set of ResNet50 weights: published (``url``), a local file, or drawn from ``seed``.

    ``sha256`` is the whole digest of a local file, or the first 8 digits that torchvision puts
    into the name of a published one; drawn weights have none before they are drawn.
    """

    name: str
    recipe: Recipe
    sha256: str = ""
    url: str | None = None
    file: Path | None = None
    seed: int | None = None

    @property
    def meaningful(self) -> bool:
        """False for drawn weights, whose answers say nothing about a picture."""
        return self.seed is None

    def matches(self, recorded: dict[str, Any]) -> bool:
        """Whether a manifest's ``weights`` object names exactly these weights."""
        return recorded.get("name") == self.name and str(recorded.get("sha256", "")).startswith(
            self.sha256
        )


def _imagenet_recipe(resize_size: int) -> Recipe:
    # torchvision's ImageClassification preset; mean and std of the ImageNet training set.
    return Recipe(
        resize_size=resize_size,
        crop_size=224,
        resize_mode="shortest_edge",
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        normalised_in_graph=True,
    )


# The resize size belongs to the weights: torchvision trained and scored V2 at 232, V1 at 256.
RECIPES = {"V1": _imagenet_recipe(256), "V2": _imagenet_recipe(232)}
_HOST = "https://download.pytorch.org/models/"
PUBLISHED = {
    "IMAGENET1K_V1": Source(
        "IMAGENET1K_V1", RECIPES["V1"], sha256="0676ba61", url=_HOST + "resnet50-0676ba61.pth"
    ),
    "IMAGENET1K_V2": Source(
        "IMAGENET1K_V2", RECIPES["V2"], sha256="11ad3fa6", url=_HOST + "resnet50-11ad3fa6.pth"
    ),
}


def parse(text: str, recipe: str = "V2") -> Source:
    """Turn ``--weights`` into a Source; ``recipe`` counts for FILE.pth only. WeightsError."""
    if text in PUBLISHED:
        return PUBLISHED[text]
    if text.startswith("random:"):
        seed = text.removeprefix("random:")
        if not seed.isdecimal():
            raise WeightsError(f"{text!r}: the seed after 'random:' must be a whole number >= 0")
        return Source(f"random:{int(seed)}", RECIPES["V2"], seed=int(seed))
    file = Path(text)
    if not file.is_file():
        raise WeightsError(
            f"{text!r} is neither a file nor one of {', '.join(PUBLISHED)}, random:SEED"
        )
    return Source(file.name, RECIPES[recipe], sha256=manifest.sha256_of(file), file=file)


def cache_folder() -> Path:
    """torch hub's checkpoint folder, so that weights torchvision already fetched are found."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("TORCH_HOME") or os.path.join(cache, "torch")
    return Path(home).expanduser() / "hub" / "checkpoints"


def fetch(source: Source) -> Source:
    """Download published weights into the cache unless they are there; other sources pass.

    Returns the source with ``file`` and the whole ``sha256`` set. Raises DownloadError.
    """
    if source.url is None or source.file is not None:
        return source
    target = cache_folder() / source.url.rsplit("/", 1)[1]
    if target.is_file():
        digest = manifest.sha256_of(target)
        if digest.startswith(source.sha256):
            return replace(source, file=target, sha256=digest)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = _download(source.url, target, source.sha256)
    except requests.RequestException as error:
        raise DownloadError(
            f"weights {source.name} could not be downloaded from {source.url} ({_cause(error)})"
        ) from error
    except OSError as error:
        raise DownloadError(f"weights {source.name} could not be stored: {error}") from error
    return replace(source, file=target, sha256=digest)


def _download(url: str, target: Path, sha256_prefix: str) -> str:
    """Fetch url into target, which appears only when whole and right; returns its sha256."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    digest = hashlib.sha256()
    try:
        with (
            requests.get(url, stream=True, timeout=TIMEOUT_S) as answer,
            partial.open("wb") as file,
        ):
            answer.raise_for_status()
            length = int(answer.headers.get("Content-Length", 0)) or None
            for block in _with_progress(answer.iter_content(_BLOCK_BYTES), length, target.name):
                digest.update(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            received = file.tell()
        if length is not None and received != length:
            raise requests.ConnectionError(f"transfer ended after {received} of {length} bytes")
        if not digest.hexdigest().startswith(sha256_prefix):
            raise DownloadError(
                f"{url} has sha256 {digest.hexdigest()[:8]}… instead of {sha256_prefix}…, "
                "nothing was kept"
            )
        os.replace(partial, target)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return digest.hexdigest()


def _with_progress(blocks: Iterator[bytes], total: int | None, label: str) -> Iterator[bytes]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total)
        for block in blocks:
            yield block
            progress.advance(task, len(block))


def _cause(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return "timed out"
    if error.response is not None:
        return f"HTTP {error.response.status_code}"
    text = " ".join(str(error).split())
    for sign in ("Name or service not known", "Temporary failure in name resolution"):
        if sign in text or "NameResolutionError" in text:
            return "host name not resolved"
    for sign in ("Connection refused", "transfer ended", "IncompleteRead"):
        if sign in text:
            return "connection refused" if sign == "Connection refused" else "transfer cut short"
    return "no connection"
