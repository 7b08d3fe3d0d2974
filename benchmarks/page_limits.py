"""The page on settings, cards, memory and other machines."""

from __future__ import annotations

from benchmarks import capacity
from benchmarks.capacity import MAX_UTILISATION
from benchmarks.results import SIZES, Results, markdown, one, text


def settings(results: Results) -> str:
    rows = [
        (
            row["variant"],
            f"{row['clients']} × {row['images_per_request']}",
            *(text(row[key]) for key in ("images_per_s", "p50_ms", "p99_ms", "cpu_ms")),
            str(row["pss_MB"]),
        )
        for row in results.bench["sweep"]
    ]
    table = markdown(
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


def cards(results: Results) -> str:
    rows = [
        (
            row["gpu"] if row["dynamic_batching"] else f"{row['gpu']}, no dynamic batching",
            f"{row['fixed_us']:g} + {row['per_image_us']:g} n",
            f"{row['capacity_images_per_s']}",
            *(text(row[key]) for key in ("images_per_s", "p99_ms")),
            f"{row['mean_batch']:g}",
            f"{row['gpu_busy_percent']:g}",
        )
        for row in results.bench["gpus"]
    ]
    costs = {size: one(results.bench["sizes"], size=size, clients=4)["cpu_ms"] for size in SIZES}
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
    measured = ", ".join(f"{SIZES[size]}: {text(cost)} ms" for size, cost in costs.items())
    cores = results.bench["machine"]["cores"]
    first = markdown(
        (
            *("simulated card", "law, µs for n images", "full, images/s"),
            *(f"fed by {cores} cores, images/s", "P99 ms", "mean batch", "busy %"),
        ),
        rows,
    )
    second = markdown(("card", "full, images/s", *SIZES.values()), feeding)
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


def memory(results: Results) -> str:
    memory = results.bench["memory"]
    stubs = ", ".join(f"{name} {mb:g}" for name, mb in memory["stub_MB"].items())
    imports = ", ".join(f"{name} {mb:g}" for name, mb in memory["imports_MB"].items())
    servers = " and ".join(str(mb) for mb in memory["server_MB"])
    return f"""## Memory

Proportional set size, MB, after a load, real networks. The whole server with 1 and 2 \
pipelines: {servers}, so an extra pipeline takes {memory["per_extra_pipeline_MB"]}, most of it the \
network's weights and ONNX Runtime. Python instances: {stubs}. A bare process that has imported: \
{imports}."""


def again(results: Results) -> str:
    plan = capacity.plan("l4", 16, "1080p", 500, results.bench_file)
    hosts = "one host is enough" if plan.hosts == 1 else f"{plan.hosts} hosts are needed"
    return f"""## Again, on your machine

`make bench` takes under ten minutes on 2 cores and prints the ratios; `make bench-full` has \
more rounds, clients, rates and the whole grid of variants; `make bench-preprocess` and \
`make parity` are those parts alone; `make bench-compare` holds your run against this page, ratio \
by ratio. All need `pip install -e '.[bench]'` and wrk \
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
