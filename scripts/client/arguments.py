"""Command-line options that every tool which talks to a server shares."""

from __future__ import annotations

import argparse
import math

from client.address import PROTOCOLS
from client.classifier import DEFAULT_MODEL, DEFAULT_TIMEOUT_S, Classifier, connect
from client.retry import DEFAULT_RETRIES, OnRetry


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add --model, --url, --protocol, --retries and --timeout."""
    parser.add_argument("--model", default=DEFAULT_MODEL, help=f"default: {DEFAULT_MODEL}")
    parser.add_argument(
        "--url", help="server, such as https://host:port (default: this host, HTTP_PORT/GRPC_PORT)"
    )
    parser.add_argument("--protocol", choices=PROTOCOLS, help="default: as --url says, else http")
    parser.add_argument(
        "--retries",
        type=whole_number,
        default=DEFAULT_RETRIES,
        help=f"when the server is busy or a connection breaks (default: {DEFAULT_RETRIES})",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=DEFAULT_TIMEOUT_S,
        help=f"seconds to wait for one answer (default: {DEFAULT_TIMEOUT_S:g})",
    )


def connected(options: argparse.Namespace, on_retry: OnRetry) -> Classifier:
    """The classifier that the connection options name. ServerUnreachable, RequestRefused."""
    return connect(
        options.url,
        model=options.model,
        protocol=options.protocol,
        timeout_s=options.timeout,
        retries=options.retries,
        on_retry=on_retry,
    )


def whole_number(text: str) -> int:
    """A number from 0, for argparse."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 0")
    return int(text)


def positive_number(text: str) -> int:
    """A whole number from 1, for argparse."""
    if whole_number(text) == 0:
        raise argparse.ArgumentTypeError("at least 1")
    return int(text)


def seconds(text: str) -> float:
    """A finite time above 0 s, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value
