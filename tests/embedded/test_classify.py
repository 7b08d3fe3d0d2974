"""scripts/classify.py against the real server: what people and machines get from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from gateway import RESET, Gateway

from demonstration.pipelines import EFFICIENTNET
from embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]
CAT = ROOT / "docs" / "pictures" / "cat.jpg"
ENSEMBLE = f"{EFFICIENTNET}_ensemble"
# English labels that are right for the cat.
CATS = {"tabby", "tiger cat", "Egyptian cat"}
CAT_CLASS_IDS = {281, 282, 285}
TIMEOUT_S = 120

Done = subprocess.CompletedProcess[bytes]


def classify(url: str, *arguments: object, stdin: bytes = b"", **environment: str) -> Done:
    """Run the script as people do; every run of it ends without a traceback."""
    command = [sys.executable, "scripts/classify.py", "--url", url, "--model", ENSEMBLE]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        env={**os.environ, **environment},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def lines(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def untimed(done: Done) -> list[dict[str, Any]]:
    return [{key: v for key, v in line.items() if key != "latency_ms"} for line in lines(done)]


@pytest.fixture(scope="module")
def url(server: EmbeddedServer) -> str:
    assert ENSEMBLE in server.ensembles, "run `python scripts/demo.py --prepare` first"
    return server.http_url


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with Gateway(url).running() as running:
        yield running


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder with two cats, a broken one between them, and a text."""
    whole = CAT.read_bytes()
    shutil.copy(CAT, tmp_path / "a.jpg")
    (tmp_path / "b.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "sub").mkdir()
    shutil.copy(CAT, tmp_path / "sub" / "c.jpg")
    (tmp_path / "notes.txt").write_text("not a picture!")
    return tmp_path


def test_people_get_a_table_and_a_summary(url: str) -> None:
    done = classify(url, CAT, "--top-k", 3)
    text = done.stdout.decode()
    assert done.returncode == 0
    assert text.split()[:4] == ["picture", "rank", "label", "confidence"]
    assert all(name in text for name in CATS)
    assert "%" in text
    assert done.stderr.decode().startswith("classify: 1 of 1 classified in ")


def test_machines_get_one_json_line_per_picture(url: str) -> None:
    done = classify(url, CAT, CAT, "--json", "--top-k", 2)
    first, second = lines(done)
    assert done.returncode == 0
    assert first["source"] == str(CAT)
    assert first["latency_ms"] > 0
    assert {p["class_id"] for p in first["result"]["predictions"]} <= CAT_CLASS_IDS
    assert first["result"] == second["result"]


def test_a_bad_picture_among_good_ones_fails_alone_and_exits_1(url: str, pictures: Path) -> None:
    done = classify(url, pictures, pictures / "notes.txt", pictures / "gone.jpg", "--json")
    a, b, c, notes, gone = lines(done)
    assert done.returncode == 1
    assert a["result"] == c["result"]
    assert [b["error"], notes["error"], gone["error"]] == [
        "CORRUPT_IMAGE",
        "INVALID_BASE64",
        "UNREADABLE",
    ]
    assert b["message"] and gone["message"] == "No such file or directory"
    assert gone["latency_ms"] is None
    assert "2 of 5 classified" in done.stderr.decode()


def test_the_table_shows_the_code_and_message_of_a_bad_picture(url: str, pictures: Path) -> None:
    done = classify(url, pictures / "b.jpg")
    assert done.returncode == 1
    assert "CORRUPT_IMAGE: " in done.stdout.decode()


def test_patterns_are_searched_in_subfolders(url: str, pictures: Path) -> None:
    done = classify(url, pictures / "**" / "c.*", "--json", "--top-k", 1)
    assert [Path(line["source"]).name for line in lines(done)] == ["c.jpg"]


def test_stdin_is_classified_like_the_file(url: str) -> None:
    piped = classify(url, "-", "--json", stdin=CAT.read_bytes())
    named = classify(url, CAT, "--json")
    assert lines(piped)[0]["source"] == "-"
    assert lines(piped)[0]["result"] == lines(named)[0]["result"]


def test_trailing_zero_bytes_reach_the_server(
    url: str, server: EmbeddedServer, tmp_path: Path
) -> None:
    # A BMP of black pixels ends in zeros: without them it is cut off.
    from PIL import Image

    Image.new("RGB", (300, 300)).save(tmp_path / "black.bmp")
    assert (tmp_path / "black.bmp").read_bytes().endswith(b"\0\0\0\0")
    for protocol_url in (url, f"grpc://{server.grpc_address}"):
        assert classify(protocol_url, tmp_path / "black.bmp").returncode == 0


def test_a_web_address_is_fetched_and_a_missing_one_reported(url: str, pictures: Path) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(pictures)))
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        base = f"http://127.0.0.1:{web.server_port}"
        fetched = classify(
            url, f"{base}/a.jpg", f"{base}/gone.jpg", "--json", "--top-k", 1, no_proxy="127.0.0.1"
        )
    finally:
        web.shutdown()
        web.server_close()
        thread.join()
    good, bad = lines(fetched)
    assert fetched.returncode == 1
    assert good["source"] == f"{base}/a.jpg"
    assert good["result"]["predictions"][0]["class_id"] in CAT_CLASS_IDS
    assert (bad["error"], bad["message"]) == ("UNREADABLE", "the web server answered HTTP 404")


def test_grpc_gives_the_same_answers_as_http(
    url: str, server: EmbeddedServer, pictures: Path
) -> None:
    options = ("--json", "--threshold", "0.05", "--top-k", 4, "--lang", "zh", "--group")
    by_grpc = classify(f"grpc://{server.grpc_address}", pictures, *options)
    by_option = classify(server.grpc_address, pictures, *options, "--protocol", "grpc")
    by_http = classify(url, pictures, *options)
    assert untimed(by_grpc) == untimed(by_http) == untimed(by_option)
    assert by_grpc.returncode == by_http.returncode == 1


def test_language_group_threshold_and_top_k_are_the_servers(url: str) -> None:
    (chinese,) = lines(classify(url, CAT, "--json", "--lang", "zh", "--top-k", 1))
    (english,) = lines(classify(url, CAT, "--json", "--top-k", 1))
    (grouped,) = lines(classify(url, CAT, "--json", "--group", "--threshold", "0.5"))
    (nothing,) = lines(classify(url, CAT, "--json", "--threshold", "1"))
    (best_zh,), (best_en,) = (line["result"]["predictions"] for line in (chinese, english))
    assert best_zh["class_id"] == best_en["class_id"]
    assert not best_zh["class"].isascii()
    assert [p["group"] for p in grouped["result"]["predictions"]] == ["cat"]
    assert nothing["result"]["predictions"] == []
    assert b"nothing above the threshold" in classify(url, CAT, "--threshold", "1").stdout


def test_a_terminal_without_utf8_gets_an_answer_too(url: str) -> None:
    done = classify(url, CAT, "--lang", "zh", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert b"?" in done.stdout


def test_a_batch_beyond_the_servers_limit_is_split(gateway: Gateway) -> None:
    done = classify(gateway.url, *[CAT] * 40, "--json", "--batch-size", 40, "--top-k", 1)
    assert done.returncode == 0
    assert len(lines(done)) == 40
    assert gateway.batches == [32, 8]
    assert b"batches of 40 are split" in done.stderr


def test_a_busy_server_is_asked_again(gateway: Gateway) -> None:
    busy = json.dumps({"error": "queue is full"})
    gateway.faults = [(503, busy), (503, "<html>Service Unavailable</html>")]
    done = classify(gateway.url, CAT, "--json")
    told = done.stderr.decode().splitlines()
    assert done.returncode == 0
    assert "(HTTP 503): queue is full; retry 1 of 5 in " in told[0]
    assert "retry 2 of 5 in " in told[1]
    assert len(gateway.batches) == 1


def test_a_connection_that_breaks_is_tried_again(gateway: Gateway) -> None:
    gateway.faults = [RESET]
    done = classify(gateway.url, CAT, "--json")
    assert done.returncode == 0
    assert "broke" in done.stderr.decode().splitlines()[0]


def test_a_server_that_stays_busy_exits_2_after_the_retries(gateway: Gateway) -> None:
    gateway.faults = [(503, "{}")] * 9
    done = classify(gateway.url, CAT, "--retries", 1)
    assert done.returncode == 2
    assert "given up after 2 tries" in done.stderr.decode()
    assert len(gateway.faults) == 7


def test_what_was_answered_before_the_server_went_is_shown(gateway: Gateway) -> None:
    def fail_the_second() -> None:
        while not gateway.batches:
            pass
        gateway.faults = [(503, "{}")] * 9

    watcher = threading.Thread(target=fail_the_second)
    watcher.start()
    done = classify(gateway.url, *[CAT] * 20, "--batch-size", 1, "--retries", 0, "--json")
    watcher.join()
    assert done.returncode == 2
    assert 1 <= len(lines(done)) < 20


def test_a_failed_request_fails_only_its_own_pictures(gateway: Gateway) -> None:
    gateway.faults = [(500, json.dumps({"error": "stub process is not healthy"}))]
    done = classify(gateway.url, CAT, CAT, "--batch-size", 1, "--json")
    failed, good = lines(done)
    assert done.returncode == 1
    assert failed["error"] == "SERVER_ERROR"
    assert "stub process is not healthy" in failed["message"]
    assert "predictions" in good["result"]


def test_no_server_exits_2_at_once_with_the_address(tmp_path: Path) -> None:
    done = classify("http://127.0.0.1:1", CAT)
    assert done.returncode == 2
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert "no server at http://127.0.0.1:1" in line
    assert "make serve" in line


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_what_the_server_refuses_is_shown_in_its_words(
    server: EmbeddedServer, url: str, protocol: str
) -> None:
    target = url if protocol == "http" else f"grpc://{server.grpc_address}"
    refused = classify(target, CAT, "--top-k", 1000)
    unknown = classify(target, CAT, "--model", "no_such_model")
    wrong = classify(target, CAT, "--model", f"{EFFICIENTNET}_inference")
    assert [refused.returncode, unknown.returncode, wrong.returncode] == [2, 2, 2]
    assert b"top_k=1000 is not allowed" in refused.stderr
    assert b"from 1 to 100" in refused.stderr
    assert b"'no_such_model' is not found" in unknown.stderr
    assert b"name an ensemble" in wrong.stderr


def test_the_wrong_port_is_named_as_such(server: EmbeddedServer, url: str) -> None:
    http_to_grpc = classify(f"http://{server.grpc_address}", CAT, "--retries", 0)
    grpc_to_http = classify(f"grpc://{server.http_address}", CAT, "--retries", 0)
    assert [http_to_grpc.returncode, grpc_to_http.returncode] == [2, 2]
    assert b"is it the gRPC port?" in http_to_grpc.stderr
    assert b"is not available" in grpc_to_http.stderr


def test_a_wrong_command_line_exits_2(url: str) -> None:
    for arguments in (["-", "-"], [CAT, "--batch-size", 0], [CAT, "--timeout", "nan"], []):
        done = classify(url, *arguments)
        assert done.returncode == 2, arguments
        assert b"usage:" in done.stderr


def test_a_reader_that_leaves_is_no_error_message(url: str) -> None:
    command = f"{sys.executable} scripts/classify.py {' '.join([str(CAT)] * 30)} --batch-size 1 "
    done = subprocess.run(
        ["bash", "-c", f"{command} --json --url {url} --model {ENSEMBLE} | head -n 1"],
        cwd=ROOT,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert len(done.stdout.splitlines()) == 1
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr
