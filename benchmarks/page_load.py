"""The page on whole servers under load."""

from __future__ import annotations

from benchmarks.end_to_end import MONOLITH_FAST
from benchmarks.results import SHOWN, SIZES, Results, markdown, text


def null_inference(results: Results) -> str:
    null = results.bench["null"]
    several = null["several"]
    memory = ", ".join(f"{SHOWN[n].strip('*')} {mb}" for n, mb in null["pss_MB"].items())
    alone = results.over("null", MONOLITH_FAST, 1)
    split = ", ".join(f"{name} {text(ms)}" for name, ms in null["cpu_ms_by_model"].items())
    return f"""## End to end, null inference

The network answers at once, so only what surrounds it counts. One {SIZES[null["size"]]} JPEG per \
request as base64 in JSON; closed loop (wrk), {null["rounds"]} interleaved rounds of \
{null["seconds"]:g} s in {null["visits"]} visits spread over the run, each with all servers \
started anew. CPU is that of all server processes; the gateway's includes Triton's.

{_contenders_table(results, "null")}

The ensemble over each of them, round by round (images/s above 1, the rest below 1 is better for \
the ensemble):

{_ratio_table(results, "null")}

With {several["images_per_request"]} images per request and {several["clients"]} clients the \
ensemble does {text(several["images_per_s"])} images/s at {text(several["cpu_ms"])} ms CPU an \
image. \
**It does not beat a monolith with the same preprocessing at one client** \
({text(alone["images_per_s"])} × the images/s): two Python stages and three hops between \
processes cost more than a function call. \
Where its CPU goes at 16 clients (ms an image, stubs included): {split}. \
Memory (PSS, MB): {memory}.

![Images per second, P99 and CPU by number of clients](benchmarks/end_to_end.png)"""


def real_inference(results: Results) -> str:
    real = results.bench["real"]
    return f"""## End to end, real inference on the CPU

ResNet50 on ONNX Runtime, every core, the same settings everywhere; {real["rounds"]} rounds of \
{real["seconds"]:g} s. The network takes nearly all of the time, so architecture hardly shows: on \
a CPU choose by what you operate, not by speed.

{_contenders_table(results, "real")}

{_ratio_table(results, "real")}"""


def fixed_rates(results: Results) -> str:
    rates = results.bench["rates"]
    keys = ("answered_per_s", "p50_ms", "p95_ms", "p99_ms", "failed", "generator_late_p99_ms")
    rows = [
        (SHOWN[row["contender"]], f"{row['offered_per_s']:g}", *(f"{row[k]:g}" for k in keys))
        for row in rates["rows"]
    ]
    table = markdown(
        (
            *("", "offered/s", "answered/s", "P50 ms", "P95 ms", "P99 ms", "failed"),
            "generator late, P99 ms",
        ),
        rows,
    )
    return f"""## Fixed rates

Open loop: Poisson arrivals at a fixed mean rate, {rates["seconds"]:g} s each, null inference. \
Latency counts from the instant at which a request was due, so a stall makes all requests behind \
it late (no coordinated omission). The generator shares the cores; where its own lateness is not \
small, the machine was full. A contender stops after the first rate that it cannot hold.

{table}

![P99 by offered rate](benchmarks/rates.png)"""


def _contenders_table(results: Results, part: str) -> str:
    keys = ("images_per_s", "p50_ms", "p95_ms", "p99_ms", "cpu_ms")
    rows = [
        (SHOWN[row["contender"]], str(row["clients"]), *(text(row[key]) for key in keys))
        for row in sorted(results.bench[part]["rows"], key=lambda r: r["clients"])
    ]
    return markdown(
        ("", "clients", "images/s", "P50 ms", "P95 ms", "P99 ms", "CPU ms an image"), rows
    )


def _ratio_table(results: Results, part: str) -> str:
    keys = ("images_per_s", "p50_ms", "p99_ms", "cpu_ms")
    rows = [
        (SHOWN[row["contender"]], str(row["clients"]), *(text(row[key]) for key in keys))
        for row in sorted(results.bench[part]["ensemble_over"], key=lambda r: r["clients"])
    ]
    return markdown(("ensemble over", "clients", "images/s", "P50", "P99", "CPU per image"), rows)
