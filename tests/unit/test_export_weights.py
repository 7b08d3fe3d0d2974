"""scripts/exporting/weights.py against a real HTTP server: what arrives wrong is never used."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from exporting import weights
from exporting.weights import DownloadError, Source, WeightsError

CONTENT = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FILE_NAME = "resnet50-11ad3fa6.pth"


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT at /whole, half of it at /cut, no length at /unsized, an error elsewhere."""

    def do_GET(self) -> None:
        self.server.requests_seen.append(self.path)  # type: ignore[attr-defined]
        kind = self.path.split("/")[1]
        if kind not in ("whole", "cut", "unsized"):
            self.send_error(503)
            return
        self.send_response(200)
        if kind != "unsized":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if kind == "cut" else CONTENT)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests_seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path / "hub" / "checkpoints"


def source(server: ThreadingHTTPServer, kind: str, sha256: str = DIGEST[:8]) -> Source:
    url = f"http://127.0.0.1:{server.server_port}/{kind}/{FILE_NAME}"
    return replace(weights.PUBLISHED["IMAGENET1K_V2"], url=url, sha256=sha256)


@pytest.mark.parametrize("kind", ["whole", "unsized"])
def test_a_right_download_lands_in_the_torch_cache(
    server: ThreadingHTTPServer, cache: Path, kind: str
) -> None:
    fetched = weights.fetch(source(server, kind))
    assert fetched.file == cache / FILE_NAME
    assert fetched.sha256 == DIGEST
    assert fetched.file.read_bytes() == CONTENT
    assert [file.name for file in cache.iterdir()] == [FILE_NAME]


def test_a_cached_file_needs_no_server(server: ThreadingHTTPServer) -> None:
    weights.fetch(source(server, "whole"))
    weights.fetch(source(server, "broken"))
    assert len(server.requests_seen) == 1  # type: ignore[attr-defined]


def test_a_damaged_cached_file_is_downloaded_again(
    server: ThreadingHTTPServer, cache: Path
) -> None:
    cache.mkdir(parents=True)
    (cache / FILE_NAME).write_bytes(CONTENT[:-1])
    assert weights.fetch(source(server, "whole")).sha256 == DIGEST
    assert (cache / FILE_NAME).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("kind", "sha256", "says"),
    [
        ("whole", "00000000", f"has sha256 {DIGEST[:8]}… instead of 00000000…"),
        ("cut", DIGEST[:8], "transfer cut short"),
        ("broken", DIGEST[:8], "HTTP 503"),
    ],
)
def test_a_wrong_download_leaves_nothing_and_says_why_in_one_line(
    server: ThreadingHTTPServer, cache: Path, kind: str, sha256: str, says: str
) -> None:
    with pytest.raises(DownloadError) as caught:
        weights.fetch(source(server, kind, sha256))
    text = str(caught.value)
    assert says in text
    assert "use --weights FILE.pth" in text
    assert "random:0" in text
    assert "\n" not in text
    assert list(cache.iterdir()) == []


def test_a_closed_port_is_told_as_refused() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/{FILE_NAME}"
        with pytest.raises(DownloadError, match="connection refused"):
            weights.fetch(replace(weights.PUBLISHED["IMAGENET1K_V2"], url=url))


def test_an_unknown_host_is_told_as_not_resolved() -> None:
    url = f"http://nowhere.invalid/{FILE_NAME}"
    with pytest.raises(DownloadError, match=r"host name not resolved\): use --weights FILE.pth"):
        weights.fetch(replace(weights.PUBLISHED["IMAGENET1K_V2"], url=url))


def test_a_silent_server_is_told_as_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "TIMEOUT_S", (0.2, 0.2))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{FILE_NAME}"
        with pytest.raises(DownloadError, match="timed out"):
            weights.fetch(replace(weights.PUBLISHED["IMAGENET1K_V2"], url=url))


def test_a_cache_that_cannot_be_written_is_told(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    (tmp_path / "hub").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="could not be stored"):
        weights.fetch(source(server, "whole"))


def test_published_weights_carry_torchvisions_url_digest_and_resize_size() -> None:
    from torchvision.models import ResNet50_Weights

    for name, published in weights.PUBLISHED.items():
        reference = ResNet50_Weights[name]
        preset = reference.transforms()
        assert published.url == reference.url
        assert published.sha256 in reference.url
        assert [published.recipe.resize_size] == preset.resize_size
        assert [published.recipe.crop_size] == preset.crop_size
        assert list(published.recipe.mean) == preset.mean
        assert list(published.recipe.std) == preset.std


def test_the_cache_is_torch_hubs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from torch import hub

    assert weights.cache_folder() == Path(hub.get_dir()) / "checkpoints"
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert weights.cache_folder() == Path(hub.get_dir()) / "checkpoints"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert weights.cache_folder() == Path(hub.get_dir()) / "checkpoints"


def test_a_file_has_its_own_digest_and_the_recipe_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "mine.pth"
    file.write_bytes(CONTENT)
    parsed = weights.parse(str(file), "V1")
    assert (parsed.name, parsed.sha256, parsed.meaningful) == ("mine.pth", DIGEST, True)
    assert parsed.recipe.resize_size == 256
    assert weights.fetch(parsed) is parsed


def test_random_weights_use_the_default_recipe_and_are_meaningless() -> None:
    parsed = weights.parse("random:007")
    assert (parsed.name, parsed.seed, parsed.meaningful) == ("random:7", 7, False)
    assert parsed.recipe == weights.PUBLISHED["IMAGENET1K_V2"].recipe


@pytest.mark.parametrize("text", ["random:", "random:-1", "random:x", "IMAGENET1K_V3", "", "."])
def test_weights_that_are_nothing_known_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(WeightsError) as caught:
        weights.parse(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)
