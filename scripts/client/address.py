"""Where the server is: one text such as ``http://host:8000`` → its parts, and a first knock."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from client.errors import RequestRefused, ServerUnreachable

HTTP, GRPC = "http", "grpc"
PROTOCOLS = (HTTP, GRPC)
_SCHEMES = {"http": HTTP, "https": HTTP, "grpc": GRPC, "grpcs": GRPC}
# The knobs of .env.example and their defaults.
_PORTS = {HTTP: ("HTTP_PORT", "8000"), GRPC: ("GRPC_PORT", "8001")}
CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Address:
    """A server's address; ``path`` is a prefix that a gateway puts before ``/v2``."""

    protocol: str
    host: str
    port: int
    encrypted: bool
    path: str = ""

    @property
    def target(self) -> str:
        """The address as tritonclient takes it, without scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path}"

    def __str__(self) -> str:
        return f"{self.protocol}{'s' if self.encrypted else ''}://{self.target}"


def default_url(protocol: str) -> str:
    """This host's server, on the port that the environment names."""
    knob, port = _PORTS[protocol]
    return f"{protocol}://127.0.0.1:{os.environ.get(knob) or port}"


def parse(url: str | None = None, protocol: str | None = None) -> Address:
    """Read ``[scheme://]host[:port][/prefix]``; scheme and ``protocol`` may each be left out.

    Neither means HTTP. Raises RequestRefused with what is wrong about it.
    """
    text = url or default_url(protocol or HTTP)
    parts = urlsplit(text if "://" in text else f"{protocol or HTTP}://{text}")
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES:
        raise RequestRefused(f"--url {text}: the scheme is one of {', '.join(_SCHEMES)}")
    if protocol not in (None, _SCHEMES[scheme]):
        raise RequestRefused(f"--url {text} and --protocol {protocol} disagree")
    protocol = _SCHEMES[scheme]
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise RequestRefused(f"--url {text}: {error}") from None
    if not host:
        raise RequestRefused(f"--url {text} names no host")
    encrypted = scheme.endswith("s")
    if port is None:
        port = 443 if encrypted else int(_PORTS[protocol][1])
    return Address(protocol, host, port, encrypted, parts.path.rstrip("/"))


def knock(address: Address) -> None:
    """Open and close a connection, so that a wrong address is told apart from a busy server.

    Raises ServerUnreachable at once: nobody wants to wait through retries for a typing mistake.
    """
    try:
        socket.create_connection((address.host, address.port), CONNECT_TIMEOUT_S).close()
    except ConnectionRefusedError:
        cause = "nothing listens there: start it with `make serve`, or name another --url"
    except socket.gaierror:
        cause = f"the name {address.host} is unknown: check --url"
    except TimeoutError:
        cause = f"no connection within {CONNECT_TIMEOUT_S:g} s: check --url and firewalls"
    except OSError as error:
        cause = f"{error.strerror or error}: check --url"
    else:
        return
    raise ServerUnreachable(f"no server at {address}: {cause}") from None
