"""scripts/client without a server: addresses, retries, splitting, sources, downloads, reports."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from client import Outcome, RequestRefused, ServerUnreachable, address, classifier, report, sources
from client.classifier import failed, split
from client.download import fetch
from client.errors import SourceError, Transient
from client.retry import FIRST_WAIT_S, LONGEST_WAIT_S, Retrying, wait_s

ROOT = Path(__file__).resolve().parents[2]
PICTURE = b"\xff\xd8\xff" + bytes(5000)


# --- addresses --------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "protocol", "shown"),
    [
        ("127.0.0.1:9000", None, "http://127.0.0.1:9000"),
        ("127.0.0.1:9001", "grpc", "grpc://127.0.0.1:9001"),
        ("triton", None, "http://triton:8000"),
        ("grpc://triton", None, "grpc://triton:8001"),
        ("https://models.example/prefix/", None, "https://models.example:443/prefix"),
        ("grpcs://models.example", "grpc", "grpcs://models.example:443"),
        ("http://[::1]:8000", "http", "http://[::1]:8000"),
    ],
)
def test_scheme_port_and_protocol_may_be_left_out(
    url: str, protocol: str | None, shown: str
) -> None:
    assert str(address.parse(url, protocol)) == shown


@pytest.mark.parametrize(
    ("url", "protocol"),
    [("ftp://host", None), ("http://host", "grpc"), ("http://host:port", None), ("http://", None)],
)
def test_a_wrong_address_is_refused_with_the_address_in_the_text(
    url: str, protocol: str | None
) -> None:
    with pytest.raises(RequestRefused, match=url.replace("?", ".")):
        address.parse(url, protocol)


def test_the_environment_names_the_default_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_PORT", "9001")
    monkeypatch.delenv("HTTP_PORT", raising=False)
    assert str(address.parse(None, "grpc")) == "grpc://127.0.0.1:9001"
    assert str(address.parse()) == "http://127.0.0.1:8000"


# --- retries ----------------------------------------------------------------


def test_waits_double_up_to_a_limit_and_half_of_each_is_random() -> None:
    for retry in range(12):
        longest = min(FIRST_WAIT_S * 2**retry, LONGEST_WAIT_S)
        waits = [wait_s(retry) for _ in range(50)]
        assert all(longest / 2 <= wait <= longest for wait in waits)
        assert len(set(waits)) > 1


def test_a_busy_server_is_asked_again_and_each_retry_is_told() -> None:
    told: list[str] = []
    waits: list[float] = []
    answers = iter([Transient("busy"), Transient("busy"), None])

    def attempt() -> str:
        error = next(answers)
        if error:
            raise error
        return "answer"

    assert Retrying(5, told.append, waits.append)(attempt) == "answer"
    assert len(waits) == 2
    assert told[0].startswith("busy; retry 1 of 5 in 0.")
    assert told[1].startswith("busy; retry 2 of 5 in 0.")


@pytest.mark.parametrize(("retries", "tries"), [(0, "1 try"), (2, "3 tries")])
def test_a_server_that_stays_busy_is_given_up(retries: int, tries: str) -> None:
    attempts: list[None] = []

    def attempt() -> None:
        attempts.append(None)
        raise Transient("busy")

    with pytest.raises(ServerUnreachable, match=f"busy; given up after {tries}"):
        Retrying(retries, sleep=lambda _: None)(attempt)
    assert len(attempts) == retries + 1


# --- batches and results ----------------------------------------------------


def test_a_batch_is_split_at_the_servers_limit_and_at_the_request_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(classifier, "MAX_REQUEST_BYTES", 100)
    images = [bytes(n) for n in (40, 40, 40, 500, 0, 0, 0, 0, 0)]
    parts = [[len(image) for image in part] for part in split(images, 4)]
    assert parts == [[40, 40], [40], [500], [0, 0, 0, 0], [0]]


def test_no_image_makes_no_request() -> None:
    assert list(split([], 4)) == []


def test_both_layouts_and_both_field_cases_read_alike() -> None:
    row = {"class_id": 7, "class": "cock", "confidence": 0.5}
    results: list[dict[str, object]] = [
        {"predictions": [row]},
        {"predictions": [{"classId": 7, "class": "cock", "confidence": 0.5}]},
        {"class_ids": [7], "classes": ["cock"], "confidences": [0.5]},
        {"classIds": [7], "classes": ["cock"], "confidences": [0.5]},
    ]
    for result in results:
        (found,) = Outcome(result, 1.0).predictions
        assert {key: found[key] for key in row} == row


# --- sources ----------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.JPG", "a.png", "deep/er/c.webp", "notes.txt", "we[i]rd.gif"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(name.encode())
    return tmp_path


def names(*inputs: object) -> list[str]:
    return [Path(source.name).name for source in sources.expand([str(i) for i in inputs])]


def cause(*inputs: object) -> str:
    (source,) = sources.expand([str(i) for i in inputs])
    with pytest.raises(SourceError) as raised:
        source.read()
    return str(raised.value)


def test_a_folder_yields_its_pictures_at_any_depth_in_order(folder: Path) -> None:
    assert names(folder) == ["a.png", "b.JPG", "we[i]rd.gif", "c.webp"]


def test_a_pattern_yields_what_it_matches_in_order(folder: Path) -> None:
    assert names(folder / "*.*") == ["a.png", "b.JPG", "notes.txt", "we[i]rd.gif"]
    assert names(folder / "**" / "*.webp") == ["c.webp"]
    assert names(folder / "d*") == ["c.webp"]


def test_a_file_named_like_a_pattern_is_that_file(folder: Path) -> None:
    (source,) = sources.expand([str(folder / "we[i]rd.gif")])
    assert source.read() == b"we[i]rd.gif"


def test_inputs_that_yield_nothing_say_why_when_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "empty").mkdir()
    (folder / "dangling.png").symlink_to(folder / "gone")
    monkeypatch.setattr(sources, "MAX_SOURCE_BYTES", 4)
    assert cause(folder / "missing.png") == "No such file or directory"
    assert cause(folder / "dangling.png") == "No such file or directory"
    assert cause(folder / "*.bmp") == "no file matches this pattern"
    assert cause(folder / "empty").startswith("no picture in this folder")
    assert cause(folder / "notes.txt").startswith("larger than")


def test_stdin_is_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(PICTURE))
    monkeypatch.setattr("sys.stdin", stdin)
    (source,) = sources.expand(["-"])
    assert (source.name, source.read()) == ("-", PICTURE)


# --- downloads --------------------------------------------------------------


class WebServer(BaseHTTPRequestHandler):
    """Addresses that behave as their names say."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/cat.jpg")
            self.end_headers()
            return
        self.send_response(200 if self.path != "/missing" else 404)
        if self.path == "/declared-too-large":
            self.send_header("Content-Length", str(1 << 40))
        if self.path == "/cut":
            self.send_header("Content-Length", str(len(PICTURE) * 2))
        self.end_headers()
        self.wfile.write(PICTURE)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), WebServer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("path", ["/cat.jpg", "/moved"])
def test_a_picture_is_fetched_and_its_progress_told(web: str, path: str) -> None:
    told: list[int] = []
    assert fetch(web + path, 1 << 20, lambda _, now, __: told.append(now)) == PICTURE
    assert told[-1] == len(PICTURE)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/missing", "the web server answered HTTP 404"),
        ("/declared-too-large", "larger than 1 MiB"),
        ("/cut", "the transfer ended early"),
    ],
)
def test_a_download_that_fails_says_why(web: str, path: str, text: str) -> None:
    with pytest.raises(SourceError, match=text):
        fetch(web + path, 1 << 20)


def test_a_body_of_undeclared_size_is_cut_off_at_the_limit(web: str) -> None:
    with pytest.raises(SourceError, match="larger than"):
        fetch(web + "/cat.jpg", 1000)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:1/cat.jpg", "nothing listens at this address"),
        ("http://no-such-host.invalid/cat.jpg", "name is unknown"),
        ("http://", "."),
        ("http://[broken", "."),
    ],
)
def test_an_address_nobody_answers_at_says_why_in_one_line(
    url: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SourceError, match=text) as raised:
        fetch(url, 1 << 20)
    assert "\n" not in str(raised.value)


# --- environment -------------------------------------------------------------


@pytest.mark.parametrize("script", ["classify.py", "demo.py"])
def test_a_python_without_the_packages_is_told_in_one_line(script: str) -> None:
    bare = [sys.executable, "-S", str(ROOT / "scripts" / script), "--help"]
    done = subprocess.run(bare, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "No module named" in line
    assert "pip install -e" in line


# --- reports ----------------------------------------------------------------


def test_json_lines_are_ascii_and_carry_result_or_error() -> None:
    good = report.json_line("a.png", Outcome({"predictions": [{"class": "虎斑猫"}]}, 1.5))
    bad = report.json_line("b.png", failed("UNREADABLE", "missing"))
    assert good.isascii()
    assert json.loads(good) == {
        "source": "a.png",
        "result": {"predictions": [{"class": "虎斑猫"}]},
        "latency_ms": 1.5,
    }
    assert json.loads(bad) == {
        "source": "b.png",
        "error": "UNREADABLE",
        "message": "missing",
        "latency_ms": None,
    }


def test_a_file_name_cannot_break_the_terminal_or_the_table() -> None:
    assert report.printable("a\x1b[31m\n.png") == "a\ufffd[31m\ufffd.png"
    assert report.printable(os.fsdecode(b"\xff.png")) == "\ufffd.png"
    stream = io.StringIO()
    outcome = Outcome({"predictions": [{"class_id": 1, "class": "[b]", "confidence": 0.5}]}, 1.0)
    report.console(stream).print(report.table([("[red]x[/red].png", outcome)]))
    assert "[red]x[/red].png" in stream.getvalue()
    assert "[b]" in stream.getvalue()


def test_a_long_name_keeps_its_end() -> None:
    assert report.shortened("short.png") == "short.png"
    shown = report.shortened("/very/long/path/that/does/not/fit/into/the/table/cat.png")
    assert len(shown) <= report.NAME_WIDTH
    assert shown.startswith("…/")
    assert shown.endswith("/table/cat.png")


def test_a_stream_without_chinese_gets_question_marks() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    console = report.console(stream)
    console.print("虎斑猫")
    stream.flush()
    assert raw.getvalue().strip() == b"???"
