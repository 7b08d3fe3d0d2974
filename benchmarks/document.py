"""docs/benchmarks.md and its headline, from the committed results alone.

Text between the figures is fixed; every measured number is read from bench.json or parity.json, so
that running this again gives the same files. A test holds them equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import capacity, targets
from benchmarks.capacity import MAX_UTILISATION
from benchmarks.end_to_end import (
    ENSEMBLE,
    GATEWAY,
    GATEWAY_2,
    GATEWAY_FAST,
    MONOLITH,
    MONOLITH_FAST,
)
from benchmarks.sweep import SHIPPED, TUTORIAL
from benchmarks.timing import Figure

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = DOCS / "benchmarks"
DOCUMENT, HEADLINE = DOCS / "benchmarks.md", FOLDER / "headline.md"

_SHOWN = {
    ENSEMBLE: "**ensemble (this bundle)**",
    GATEWAY: "FastAPI gateway → Triton",
    GATEWAY_2: "same, 2 workers",
    GATEWAY_FAST: "gateway with our preprocess",
    MONOLITH: "FastAPI + ONNX Runtime",
    MONOLITH_FAST: "same with our preprocess",
}
_SIZES = {"in500": "500 × 375", "hd1080": "1920 × 1080", "mp12": "4000 × 3000"}


class Results:
    """The committed results, with the look-ups that the document needs."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.bench: dict[str, Any] = json.loads((folder / "bench.json").read_text("utf-8"))
        self.parity: dict[str, Any] = json.loads((folder / "parity.json").read_text("utf-8"))

    def single(self, size: str, format_name: str = "jpeg") -> dict[str, Any]:
        """One image of a size and format."""
        rows = self.bench["preprocess"]["single"]
        return _one(rows, size=size, format=format_name)

    def row(self, part: str, contender: str, clients: int) -> dict[str, Any]:
        """A contender's figures under closed-loop load."""
        return _one(self.bench[part]["rows"], contender=contender, clients=clients)

    def over(self, part: str, contender: str, clients: int) -> dict[str, Any]:
        """The ensemble's ratios over a contender."""
        return _one(self.bench[part]["ensemble_over"], contender=contender, clients=clients)

    def swept(self, variant: str, clients: int) -> dict[str, Any]:
        """A variant of the sweep, one image per request."""
        return _one(self.bench["sweep"], variant=variant, clients=clients, images_per_request=1)

    def gpu(self, name: str, batching: bool = True) -> dict[str, Any]:
        """A simulated card."""
        return _one(self.bench["gpus"], gpu=name, dynamic_batching=batching)

    def pipeline(self, meaningful: bool) -> dict[str, Any] | None:
        """The agreement of the pipeline with real (or drawn) weights."""
        found = [p for p in self.parity["pipelines"] if p["meaningful"] is meaningful]
        return found[0] if found else None


def _one(rows: Iterable[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row[key] == value for key, value in wanted.items()))


def headline(results: Results) -> str:
    """A few lines for the front page."""
    gateway, monolith = (results.over("null", name, 16) for name in (GATEWAY, MONOLITH))
    fast, alone = (results.over("null", MONOLITH_FAST, clients) for clients in (16, 1))
    small = results.single("in500")
    real = results.pipeline(meaningful=True)
    rows = [
        (
            "against a FastAPI gateway in front of Triton, 16 clients",
            f"{_median(gateway['images_per_s'])} × the images/s, "
            f"{_median(gateway['p99_ms'])} × the P99, {_median(gateway['cpu_ms'])} × the CPU",
        ),
        (
            "against FastAPI + ONNX Runtime in one process, 16 clients",
            f"{_median(monolith['images_per_s'])} × the images/s",
        ),
        (
            "the same, given our preprocessing",
            f"{_median(fast['images_per_s'])} × at 16 clients, "
            f"{_median(alone['images_per_s'])} × at 1",
        ),
        (
            "preprocessing a 500 × 375 JPEG",
            f"{_median(small['times_faster_than']['torchvision'])} × as fast as torchvision, "
            f"{_median(small['over_bare'])} × the time of a bare decode",
        ),
    ]
    if real:
        share = real["all"]["top1_percent_without_ties"]
        other = real["all"]["opencv_top1_percent_without_ties"]
        count = real["all"]["crops"]
        rows.append(
            (
                f"top-1 equal to torchvision + PyTorch, {count} crops",
                f"{share:g} % (OpenCV's usual code: {other:g} %)",
            )
        )
    return _markdown(("measured on 2 CPU cores, without a GPU", "ratio"), rows).replace(
        "2 CPU cores", f"{results.bench['machine']['cores']} CPU cores"
    )


def document(results: Results) -> str:
    """The whole page."""
    parts: Sequence[Callable[[Results], str]] = (
        _introduction,
        _claims,
        _targets,
        _preprocessing,
        _agreement,
        _null,
        _real,
        _rates,
        _sweep,
        _gpus,
        _memory,
        _method,
    )
    return "\n\n".join(part(results) for part in parts) + "\n"


def _introduction(results: Results) -> str:
    machine = results.bench["machine"]
    packages = ", ".join(f"{n} {v}" for n, v in machine["packages"].items() if v)
    return f"""# Benchmarks

Measured on {machine["measured_on"]}: {machine["cpu"]}, {machine["cores"]} cores, which also \
ran the load generator, {machine["memory_GB"]} GB, no GPU; load average before the run \
{machine["load_before"]:g}. Python {machine["python"]}, {packages}; commit `{machine["commit"]}`, \
effort `{results.bench["effort"]}`, {results.bench["took_s"]} s.

**Trust ratios, not milliseconds**: all contenders of a table ran in turn within one run, and a \
ratio is formed round by round. Figures are medians, with the quartiles in brackets. This page is \
generated by `make bench-docs` from [bench.json](benchmarks/bench.json) and \
[parity.json](benchmarks/parity.json); a test holds every number to them."""


def _claims(results: Results) -> str:
    gateway, fast = (results.over("null", name, 16) for name in (GATEWAY, GATEWAY_FAST))
    small = results.single("in500")
    heavy, unbatched = results.gpu("large_t4"), results.gpu("large_t4", batching=False)
    t4, t4_unbatched = results.swept(SHIPPED, 16), results.swept("no dynamic batching", 16)
    memory, start = results.bench["memory"], results.bench["start_up"]
    imports = memory["imports_MB"]
    ours_MB, torch_MB = imports["this bundle's preprocess"], imports["torch + torchvision"]
    rows = [
        (
            "P99 −37 % against a FastAPI gateway",
            f"**{_change(gateway['p99_ms'])}** at 16 clients with the tutorials' OpenCV code in "
            f"the gateway; {_change(fast['p99_ms'])} when the gateway gets our preprocessing",
        ),
        (
            "CPU −22 % against a FastAPI gateway",
            f"**{_change(gateway['cpu_ms'])}** per image at 16 clients, all server processes "
            f"counted; {_change(fast['cpu_ms'])} with our preprocessing in the gateway",
        ),
        (
            "preprocess 1.2 ms",
            f"**{_text(small['ms']['ours'])} ms** for a 500 × 375 JPEG; "
            f"{_median(results.single('hd1080')['ms']['ours'])} ms at 1080p, "
            f"{_median(results.single('mp12')['ms']['ours'])} ms at 12 megapixels: without a "
            "picture size the claim says nothing",
        ),
        (
            "dynamic batching +165 % QPS",
            "depends on how heavy the network is: "
            f"**{_change_of(heavy['images_per_s'], unbatched['images_per_s'])}** with a simulated "
            "GPU that is the limit, "
            f"{_change_of(t4['images_per_s'], t4_unbatched['images_per_s'])} where preprocessing "
            "on 2 cores is. Not tested on a GPU",
        ),
        (
            "a shared preprocessor saves 83 % memory",
            "every Triton instance is a process of its own and shares no Python objects. What "
            f"does save: {ours_MB:g} MB a process instead of {torch_MB:g} MB with torch + "
            f"torchvision (**−{100 * (1 - ours_MB / torch_MB):.0f} %**){_fewer_instances(results)}",
        ),
        (
            "live in 30 s",
            f"embedded mode: **{_text(start['seconds'])} s** from start until {start['pipelines']} "
            "pipelines have classified a picture, models exported before. Compose, image "
            "download and engine build: not tested here",
        ),
    ]
    return "## What the claims come to\n\n" + _markdown(("claim", "here"), rows)


def _fewer_instances(results: Results) -> str:
    shipped_MB = results.swept(SHIPPED, 1)["pss_MB"]
    if not any(row["variant"] == TUTORIAL for row in results.bench["sweep"]):
        return "; the tutorials' 32 + 32 instances did not start on this machine"
    tutorial_MB = results.swept(TUTORIAL, 1)["pss_MB"]
    return (
        f", and 1 + 1 instances ({shipped_MB} MB in all) instead of 32 + 32 ({tutorial_MB} MB, "
        f"−{100 * (1 - shipped_MB / tutorial_MB):.0f} %)"
    )


def _targets(results: Results) -> str:
    rows = [
        (target.measure, target.wanted, target.measured, "yes" if target.holds else "**no**")
        for target in targets.evaluate(results.bench, results.parity)
    ]
    return "## Targets\n\n" + _markdown(("measure", "target", "measured", "holds"), rows)


def _preprocessing(results: Results) -> str:
    preprocess = results.bench["preprocess"]
    rows = [
        (
            f"{_SIZES[row['size']]} {row['format']}, {row['mean_kB']} kB",
            _text(row["ms"]["ours"]),
            *(_text(row["ms"][name]) for name in ("opencv", "torchvision")),
            _text(row["over_bare"]) if "over_bare" in row else "",
            *(_text(row["times_faster_than"][name]) for name in ("torchvision", "opencv")),
        )
        for row in preprocess["single"]
    ]
    batch, scaling = preprocess["batch"], preprocess["scaling"]
    rates = scaling["images_per_s"]
    steps = results.single("in500")["steps_ms"]
    table = _markdown(
        (
            *("one image, one thread", "ours, ms", "OpenCV, ms", "torchvision, ms"),
            *("ours over a bare decode", "× torchvision", "× OpenCV"),
        ),
        rows,
    )
    return f"""## Preprocessing

Ours takes base64 text and gives uint8 pixels, through the thread pool, as served; the others take \
the file's bytes. OpenCV is the tutorials' code (`imdecode`, `INTER_LINEAR`, float32 normalise, \
transpose); it does not antialias, and its PNG and WebP decoders are faster than Pillow's. \
"Bare decode" is libjpeg-turbo to RGB and nothing else. × is how many times faster ours is.

{table}

At 500 × 375, {_median(steps["decode"])} ms are base64 and decoding and \
{_median(steps["resize"])} ms resizing. A request of {batch["images"]} images on \
{batch["threads"]} threads takes {_text(batch["ms"]["ours"])} ms an image, \
{_text(batch["times_faster_than"]["torchvision"])} times as fast as torchvision and \
{_text(batch["times_faster_than"]["opencv"])} times as fast as OpenCV in a thread pool of that \
size. {scaling["cores"]} threads in one process give {_text(rates["threads"])} images/s, \
{_text(scaling["threads_over_one"])} times one thread; {scaling["cores"]} processes give \
{_text(rates["instances"])}.

![Time per image by size](benchmarks/preprocess.png)"""


def _agreement(results: Results) -> str:
    real, drawn = (results.pipeline(meaningful) for meaningful in (True, False))
    parts = ["## Agreement with torchvision + PyTorch"]
    parts.append(
        "Crops of real photographs in many sizes, formats, JPEG qualities, chroma subsamplings "
        "and orientations, from base64 to the class ids of the JSON answer. A near-tie is a crop "
        f"whose two best reference classes are less than {results.parity['near_tie']:g} apart. "
        "The distance is the total variation of the two probability distributions, 0 to 1."
    )
    for found in (real, drawn):
        if found is None:
            continue
        note = "" if found["meaningful"] else " (drawn at random: no gate, and no help to tell)"
        parts.append(f"**{found['pipeline']}**, weights `{found['weights']}`{note}:")
        parts.append(_agreement_table(found))
    server = results.parity["server"]
    parts.append(
        f"The same through the real server: {server['equal']} of {server['answers']} answers "
        "have the class ids that this process computes."
    )
    parts.append("![Agreement by set, and probability distance](benchmarks/parity.png)")
    return "\n\n".join(parts)


def _agreement_table(found: dict[str, Any]) -> str:
    keys = (
        *("crops", "near_ties", "top1_percent", "top1_percent_without_ties"),
        *("top1_in_top5_percent", "top5_overlap_percent", "opencv_top1_percent_without_ties"),
        *("total_variation_median", "total_variation_p99"),
    )
    rows = [
        (name, *(f"{figures[key]:g}" for key in keys))
        for name, figures in {**found["sets"], "all": found["all"]}.items()
    ]
    return _markdown(
        (
            *("set", "crops", "near-ties", "top-1 %", "top-1 % without ties"),
            *("reference's best in our top-5 %", "top-5 overlap %", "OpenCV top-1 % without ties"),
            *("distance, median", "P99"),
        ),
        rows,
    )


def _contenders_table(results: Results, part: str) -> str:
    keys = ("images_per_s", "p50_ms", "p95_ms", "p99_ms", "cpu_ms")
    rows = [
        (_SHOWN[row["contender"]], str(row["clients"]), *(_text(row[key]) for key in keys))
        for row in sorted(results.bench[part]["rows"], key=lambda r: r["clients"])
    ]
    return _markdown(
        ("", "clients", "images/s", "P50 ms", "P95 ms", "P99 ms", "CPU ms an image"), rows
    )


def _ratio_table(results: Results, part: str) -> str:
    keys = ("images_per_s", "p50_ms", "p99_ms", "cpu_ms")
    rows = [
        (_SHOWN[row["contender"]], str(row["clients"]), *(_text(row[key]) for key in keys))
        for row in sorted(results.bench[part]["ensemble_over"], key=lambda r: r["clients"])
    ]
    return _markdown(("ensemble over", "clients", "images/s", "P50", "P99", "CPU per image"), rows)


def _null(results: Results) -> str:
    null = results.bench["null"]
    several = null["several"]
    memory = ", ".join(f"{_SHOWN[n].strip('*')} {mb}" for n, mb in null["pss_MB"].items())
    alone = results.over("null", MONOLITH_FAST, 1)
    return f"""## End to end, null inference

The network answers at once, so only what surrounds it counts. One {_SIZES[null["size"]]} JPEG per \
request as base64 in JSON; closed loop (wrk), {null["rounds"]} interleaved rounds of \
{null["seconds"]:g} s. CPU is that of all server processes; the gateway's includes Triton's.

{_contenders_table(results, "null")}

The ensemble over each of them, round by round (images/s above 1, the rest below 1 is better for \
the ensemble):

{_ratio_table(results, "null")}

With {several["images_per_request"]} images per request and {several["clients"]} clients the \
ensemble does {_text(several["images_per_s"])} images/s at {_text(several["cpu_ms"])} ms CPU an \
image. \
**It does not beat a monolith with the same preprocessing at one client** \
({_text(alone["images_per_s"])} × the images/s): two Python stages and three hops between \
processes cost more than a function call. \
Memory (PSS, MB): {memory}.

![Images per second, P99 and CPU by number of clients](benchmarks/end_to_end.png)"""


def _real(results: Results) -> str:
    real = results.bench["real"]
    return f"""## End to end, real inference on the CPU

ResNet50 on ONNX Runtime, every core, the same settings everywhere; {real["rounds"]} rounds of \
{real["seconds"]:g} s. The network takes nearly all of the time, so architecture hardly shows: on \
a CPU choose by what you operate, not by speed.

{_contenders_table(results, "real")}

{_ratio_table(results, "real")}"""


def _rates(results: Results) -> str:
    rates = results.bench["rates"]
    keys = ("answered_per_s", "p50_ms", "p95_ms", "p99_ms", "failed", "generator_late_p99_ms")
    rows = [
        (_SHOWN[row["contender"]], f"{row['offered_per_s']:g}", *(f"{row[k]:g}" for k in keys))
        for row in rates["rows"]
    ]
    table = _markdown(
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


def _sweep(results: Results) -> str:
    rows = [
        (
            row["variant"],
            f"{row['clients']} × {row['images_per_request']}",
            *(_text(row[key]) for key in ("images_per_s", "p50_ms", "p99_ms", "cpu_ms")),
            str(row["pss_MB"]),
        )
        for row in results.bench["sweep"]
    ]
    table = _markdown(
        (
            *("variant", "clients × images each", "images/s", "P50 ms", "P99 ms"),
            *("CPU ms an image", "PSS MB"),
        ),
        rows,
    )
    return f"""## Queue delay, batching, instances

Each variant differs from what is shipped in one thing; the inference step is a simulated T4 (see \
below). The tutorials' configuration is ours with their instance counts and delays.

{table}

![Variants at 1 and 16 clients](benchmarks/sweep.png)"""


def _gpus(results: Results) -> str:
    rows = [
        (
            row["gpu"] if row["dynamic_batching"] else f"{row['gpu']}, no dynamic batching",
            f"{row['fixed_us']:g} + {row['per_image_us']:g} n",
            f"{row['capacity_images_per_s']}",
            *(_text(row[key]) for key in ("images_per_s", "p99_ms")),
            f"{row['mean_batch']:g}",
            f"{row['gpu_busy_percent']:g}",
        )
        for row in results.bench["gpus"]
    ]
    costs = {size: _one(results.bench["sizes"], size=size, clients=4)["cpu_ms"] for size in _SIZES}
    feeding = [
        (
            row["gpu"],
            str(row["capacity_images_per_s"]),
            *(
                f"{row['capacity_images_per_s'] * cost['median'] / 1e3:.0f}"
                for cost in costs.values()
            ),
        )
        for row in results.bench["gpus"]
        if row["dynamic_batching"]
    ]
    measured = ", ".join(f"{_SIZES[size]}: {_text(cost)} ms" for size, cost in costs.items())
    cores = results.bench["machine"]["cores"]
    first = _markdown(
        (
            *("simulated card", "law, µs for n images", "full, images/s"),
            *(f"fed by {cores} cores, images/s", "P99 ms", "mean batch", "busy %"),
        ),
        rows,
    )
    second = _markdown(("card", "full, images/s", *_SIZES.values()), feeding)
    return f"""## Which GPU can be fed

No GPU was at hand. The inference step waits as long as a card would by a law of the batch size; \
**the laws are assumptions** (`benchmarks/laws.py`), the rest is the real server with 32 clients. \
`large_t4` is a network ten times as heavy.

{first}

Server CPU per image, all processes ({measured}), tells how many cores of this kind fill a card \
(at 100 %; plan for {100 * MAX_UTILISATION:.0f} %, as `make plan-capacity` does):

{second}

The light networks on fast cards are limited by decoding JPEGs, not by the GPU: smaller pictures \
or more cores help, a bigger card does not.

![Cores that fill a card](benchmarks/gpus.png)"""


def _memory(results: Results) -> str:
    memory = results.bench["memory"]
    stubs = ", ".join(f"{name} {mb:g}" for name, mb in memory["stub_MB"].items())
    imports = ", ".join(f"{name} {mb:g}" for name, mb in memory["imports_MB"].items())
    servers = ", ".join(str(mb) for mb in memory["server_MB"])
    return f"""## Memory

Proportional set size, MB, after a load, real networks. The whole server with 1, 2 and 3 \
pipelines: {servers}, so an extra pipeline takes {memory["per_extra_pipeline_MB"]}, most of it the \
network's weights and ONNX Runtime. Python instances: {stubs}. A bare process that has imported: \
{imports}."""


def _method(results: Results) -> str:
    plan = capacity.plan("l4", 16, "1080p", 500)
    hosts = "one host is enough" if plan.hosts == 1 else f"{plan.hosts} hosts are needed"
    return f"""## Again, on your machine

`make bench` takes less than ten minutes on 2 cores and prints the ratios; `make bench-full` has \
more rounds, clients, rates and the whole grid of variants; `make bench-preprocess` and \
`make parity` are those parts alone. All need `pip install -e '.[bench]'` and wrk \
(`apt-get install wrk`), and the models that `make demo` exports. \
`make bench-docs RESULTS=build/bench.json` writes this page from your own run.

`make plan-capacity GPU=l4 CORES=16 IMAGE=1080p RATE=500` estimates from these constants: \
{hosts}, {plan.cores_needed:g} cores in all, batches of {plan.batch}, \
{plan.preprocess_instances} preprocess instances a host, about {plan.latency_p50_ms:g} ms.

## Not tested

- A real GPU: TensorRT latency, transfers over PCIe, GPU decoding. The cards above are simulated.
- The Compose stack's time to live: image download and engine build depend on network and card.
- A network between client and server: everything ran on the loopback address.
- More than {results.bench["machine"]["cores"]} cores: how threads and instances scale beyond is \
an estimate."""


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _text(figure: dict[str, float]) -> str:
    return str(Figure(**figure))


def _median(figure: dict[str, float]) -> str:
    return f"{figure['median']:g}"


def _change(ratio: dict[str, float]) -> str:
    return _signed(ratio["median"])


def _change_of(new: dict[str, float], old: dict[str, float]) -> str:
    return _signed(new["median"] / old["median"])


def _signed(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %".replace("-", "−")
