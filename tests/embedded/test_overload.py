"""More than the server can do: the accepted is in time, the rest gets 503, memory is bounded."""

from __future__ import annotations

import itertools
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import requests
from image_cases.case import encoded, scene
from slow_pipeline import make_slow_repository
from small_pipeline import ENSEMBLE, body, jpeg, make_repository, quick_to_stop, text
from steady_load import SteadyLoad

from client import connect
from embedded import EmbeddedServer
from scaffold.configs import parameters_of, read_config

PICTURE = text(jpeg((200, 60, 20)))
IMAGE_MS = 20
OVERLOAD = 10
SECONDS = 8.0
CLIENTS = 160
RECOVERY_SECONDS = 5.0
# The arithmetic uses mean rates; the slowest seconds of a shared machine are so much slower.
SLOWEST_SECONDS = 1.3
# Pixels and bytes of everything that may wait, several times over, and what allocators keep.
MEMORY_BYTES = 400e6
SHM_BYTES = 128e6


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_slow_repository(tmp_path_factory.mktemp("slow") / "models", IMAGE_MS)


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(repository, compose_file=quick_to_stop(repository.parent)) as running:
        yield running


@dataclass
class Traffic:
    """Requests at a fixed rate, as far as CLIENTS can keep it: (status, seconds, error text)."""

    server: EmbeddedServer
    rate: float
    seconds: float
    done: list[tuple[int, float, str]] = field(default_factory=list)

    def run(self) -> Traffic:
        started = time.monotonic()
        numbers = itertools.count()
        url = f"{self.server.http_url}/v2/models/{ENSEMBLE}/infer"
        content = body([PICTURE], top_k=1)

        def client() -> None:
            with requests.Session() as session:
                session.trust_env = False
                while True:
                    due = started + next(numbers) / self.rate
                    time.sleep(max(0.0, due - time.monotonic()))
                    sent = time.monotonic()
                    if sent > started + self.seconds:
                        return
                    answer = session.post(url, json=content, timeout=60)
                    error = "" if answer.status_code == 200 else answer.json()["error"]
                    self.done.append((answer.status_code, time.monotonic() - sent, error))

        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "a request hangs"
        return self

    def times_s(self, status: int) -> list[float]:
        return sorted(seconds for code, seconds, _ in self.done if code == status)


@dataclass
class Memory:
    """The largest resident size of server and stubs, and of their shared memory."""

    server: EmbeddedServer
    resident: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)

    def look(self) -> None:
        server = psutil.Process(self.server.pid)
        processes = [server, *server.children(recursive=True)]
        # Shared pages would count once per process.
        infos = [process.memory_info() for process in processes]
        self.resident.append(sum(info.rss - info.shared for info in infos))
        regions = Path("/dev/shm").glob(f"{self.server.shm_prefix}*")
        self.shared.append(sum(region.stat().st_blocks * 512 for region in regions))

    def watch(self, stop: threading.Event) -> None:
        while not stop.wait(0.25):
            self.look()


def ask(server: EmbeddedServer, images: list[str], **parameters: object) -> requests.Response:
    url = f"{server.http_url}/v2/models/{ENSEMBLE}/infer"
    return requests.post(url, json=body(images, **parameters), timeout=60)


def test_ten_times_the_capacity_is_shed_and_what_is_accepted_is_answered_in_time(
    server: EmbeddedServer, repository: Path
) -> None:
    alone_s = statistics.median(ask(server, [PICTURE]).elapsed.total_seconds() for _ in range(9))
    with SteadyLoad(server.http_url, [PICTURE], clients=8) as steady:
        steady.wait_for(8)
        began, before = time.monotonic(), len(steady.answers)
        time.sleep(2.0)
        capacity = (len(steady.answers) - before) / (time.monotonic() - began)
    memory = Memory(server)
    memory.look()
    stop = threading.Event()
    watcher = threading.Thread(target=memory.watch, args=(stop,))
    watcher.start()
    traffic = Traffic(server, OVERLOAD * capacity, SECONDS).run()
    stop.set()
    watcher.join()

    recovered = time.monotonic()
    while ask(server, [PICTURE]).elapsed.total_seconds() > 3 * alone_s + 0.1:
        assert time.monotonic() - recovered < RECOVERY_SECONDS
    statuses = Counter(status for status, _, _ in traffic.done)
    assert set(statuses) == {200, 503}, statuses
    reasons = {re.sub(r"\d+", "N", error) for status, _, error in traffic.done if status == 503}
    for reason in reasons:
        assert re.search("Exceeds maximum queue size|Request timeout expired|overloaded: ", reason)

    config = read_config(repository / "resnet50_inference" / "configs" / "cpu.pbtxt")
    policy = config.dynamic_batching.default_queue_policy
    accepted = traffic.times_s(200)
    per_second = len(accepted) / SECONDS
    # Longest wait in the queue, the batch that runs at its end, and the request's own batch; in
    # front of them what preprocess lets wait, at the rate at which it gets rid of it.
    full_queue = policy.max_queue_size / per_second
    waiting = min(policy.default_timeout_microseconds / 1e6, full_queue)
    batches = 2 * config.max_batch_size / per_second
    preprocess = read_config(repository / "resnet50_preprocess" / "config.pbtxt")
    in_front = int(parameters_of(preprocess)["max_pending_images"])
    front = in_front / (len(traffic.done) / SECONDS)
    bound = (waiting + batches + front) * SLOWEST_SECONDS
    p99 = accepted[int(len(accepted) * 0.99)]
    print(
        f"capacity {capacity:.0f}/s, offered {OVERLOAD * capacity:.0f}/s, sent "
        f"{len(traffic.done) / SECONDS:.0f}/s, accepted {per_second:.0f}/s, p99 {p99:.2f} s, "
        f"bound {bound:.2f} s, 503 after "
        f"{statistics.median(traffic.times_s(503)) * 1e3:.0f} ms, memory "
        f"+{(max(memory.resident) - memory.resident[0]) / 1e6:.0f} MB, shm "
        f"+{(max(memory.shared) - memory.shared[0]) / 1e6:.0f} MB"
    )
    assert statuses[503] > statuses[200], "this was no overload"
    assert p99 <= bound
    assert max(memory.resident) - memory.resident[0] < MEMORY_BYTES
    assert max(memory.shared) - memory.shared[0] < SHM_BYTES


@pytest.fixture
def overloaded(server: EmbeddedServer) -> Iterator[None]:
    """About four times the capacity in the background."""
    threads = [threading.Thread(target=Traffic(server, 4000 / IMAGE_MS, 6.0).run) for _ in range(1)]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    yield
    for thread in threads:
        thread.join(120)


def test_the_client_gets_its_answers_by_trying_again(
    server: EmbeddedServer, overloaded: None
) -> None:
    told: list[str] = []
    with connect(server.http_url, retries=12, on_retry=told.append) as classifier:
        outcomes = [
            outcome for _ in range(10) for outcome in classifier.classify([jpeg((9, 9, 200))])
        ]
    assert all(outcome.error is None for outcome in outcomes)
    assert all("HTTP 503" in line for line in told)


def test_a_request_may_ask_to_wait_for_less(server: EmbeddedServer) -> None:
    """``timeout`` is in microseconds and counts in the inference queue alone."""
    with ThreadPoolExecutor(1) as pool:
        batch = pool.submit(ask, server, [PICTURE] * 32)
        time.sleep(0.25)  # of the 0.6 s that it takes
        refused = ask(server, [PICTURE], timeout=1000)
        patient = ask(server, [PICTURE])
        assert batch.result().status_code == patient.status_code == 200
    assert refused.status_code == 503
    assert "timeout expired" in refused.json()["error"]


def changed(repository: Path, values: dict[str, str]) -> Path:
    """The repository with other parameters of the preprocess model."""
    file = repository / "resnet50_preprocess" / "config.pbtxt"
    content = file.read_text()
    for key, value in values.items():
        content, count = re.subn(
            rf'(key: "{key}" value: {{ string_value: )"\d+"', rf'\1"{value}"', content
        )
        assert count == 1
    file.write_text(content)
    return repository


def test_bytes_and_images_that_wait_are_limited_in_front(tmp_path: Path) -> None:
    """Two limits, each named in its 503; a request that comes alone is never too much."""
    picture = text(encoded(scene(700, 500), "PNG"))
    limits = {"max_pending_bytes": str(len(picture) * 3 // 2), "max_pending_images": "3"}

    def both(one: Callable[[], requests.Response]) -> list[requests.Response]:
        with ThreadPoolExecutor(6) as pool:
            return list(pool.map(lambda _: one(), range(6)))

    repository = changed(make_repository(tmp_path / "models"), limits)
    with EmbeddedServer(repository, compose_file=quick_to_stop(tmp_path)) as server:
        large = both(lambda: ask(server, [picture]))
        many = both(lambda: ask(server, [PICTURE] * 4))
        assert ask(server, [picture] * 5).status_code == 200
    for answers, reason in ((large, "bytes are waiting"), (many, "images are waiting")):
        codes = Counter(answer.status_code for answer in answers)
        assert set(codes) <= {200, 503}, codes
        assert codes[200] >= 1
        errors = [answer.json()["error"] for answer in answers if answer.status_code == 503]
        assert all("overloaded: " in error for error in errors)
        assert any(reason in error for error in errors), (reason, codes, errors)
