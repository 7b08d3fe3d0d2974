"""Clients that never pause, and what each of their requests got."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import requests
from small_pipeline import ENSEMBLE, body, results

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """One request: when it was sent and answered (monotonic seconds), and with what.

    ``status`` 0 stands for no HTTP answer at all; ``results`` is empty unless it is 200.
    """

    sent_s: float
    answered_s: float
    status: int
    results: tuple[dict[str, Any], ...]
    text: str = ""


@dataclass
class SteadyLoad:
    """``clients`` threads that send the same images over kept connections until the block ends.

    After anything but a good answer a client pauses for ``pause_s``, as a polite one does.
    """

    url: str
    images: Sequence[str]
    clients: int = 4
    pause_s: float = 0.0
    parameters: dict[str, Any] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)

    def __enter__(self) -> SteadyLoad:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._client) for _ in range(self.clients)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "a request hangs"

    def wait_for(self, count: int, timeout_s: float = 30.0) -> None:
        """Until so many more requests are answered."""
        wanted = len(self.answers) + count
        deadline = time.monotonic() + timeout_s
        while len(self.answers) < wanted:
            assert time.monotonic() < deadline, f"{len(self.answers)} of {wanted} answers"
            time.sleep(0.01)

    def _client(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            while not self._stop.is_set():
                answer = self._ask(session)
                self.answers.append(answer)
                if answer.status != 200:
                    time.sleep(self.pause_s)

    def _ask(self, session: requests.Session) -> Answer:
        sent = time.monotonic()
        content = body(list(self.images), **self.parameters)
        url = f"{self.url}/v2/models/{ENSEMBLE}/infer"
        try:
            response = session.post(url, json=content, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            return Answer(sent, time.monotonic(), 0, (), repr(error))
        found = tuple(results(response.json())) if response.status_code == 200 else ()
        return Answer(sent, time.monotonic(), response.status_code, found, response.text[:300])
