"""A gateway in front of the real server that fails on demand, as those of a busy cluster do."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

RESET = "reset"
TIMEOUT_S = 30
_JSON_BYTES = "Inference-Header-Content-Length"


class Gateway(ThreadingHTTPServer):
    """What it is to do with the next inferences, and the batch sizes it has passed on.

    ``faults`` is used up one per inference: an HTTP status with a body, or RESET, which breaks
    the connection; while empty, everything is passed on to the server at ``behind``.
    """

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.faults: list[tuple[int, str] | str] = []
        self.batches: list[int] = []

    @contextmanager
    def running(self) -> Iterator[Gateway]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_GET(self) -> None:
        self._pass_on(requests.get(self.server.behind + self.path, timeout=TIMEOUT_S))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.faults:
            self._fail(self.server.faults.pop(0))
            return
        json_bytes = int(self.headers[_JSON_BYTES])
        self.server.batches.append(json.loads(body[:json_bytes])["inputs"][0]["shape"][0])
        url, headers = self.server.behind + self.path, {_JSON_BYTES: str(json_bytes)}
        self._pass_on(requests.post(url, data=body, headers=headers, timeout=TIMEOUT_S))

    def _fail(self, fault: tuple[int, str] | str) -> None:
        if not isinstance(fault, str):
            self._send(fault[0], fault[1].encode(), {})
            return
        # Without lingering, the socket's last close sends RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _pass_on(self, answer: requests.Response) -> None:
        passed = {_JSON_BYTES: answer.headers[_JSON_BYTES]} if _JSON_BYTES in answer.headers else {}
        self._send(answer.status_code, answer.content, passed)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
