"""The page on what is claimed, and on what the bundle wants to reach."""

from __future__ import annotations

from benchmarks import targets
from benchmarks.end_to_end import GATEWAY, GATEWAY_FAST
from benchmarks.results import Results, change, change_of, markdown, median, text
from benchmarks.sweep import SHIPPED, TUTORIAL


def claims(results: Results) -> str:
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
            f"**{change(gateway['p99_ms'])}** at 16 clients with the tutorials' OpenCV code in "
            f"the gateway; {change(fast['p99_ms'])} when the gateway gets our preprocessing",
        ),
        (
            "CPU −22 % against a FastAPI gateway",
            f"**{change(gateway['cpu_ms'])}** per image at 16 clients, all server processes "
            f"counted; {change(fast['cpu_ms'])} with our preprocessing in the gateway",
        ),
        (
            "preprocess 1.2 ms",
            f"**{text(small['ms']['ours'])} ms** for a 500 × 375 JPEG; "
            f"{median(results.single('hd1080')['ms']['ours'])} ms at 1080p, "
            f"{median(results.single('mp12')['ms']['ours'])} ms at 12 megapixels: without a "
            "picture size the claim says nothing",
        ),
        (
            "dynamic batching +165 % QPS",
            "depends on how heavy the network is: "
            f"**{change_of(heavy['images_per_s'], unbatched['images_per_s'])}** with a simulated "
            "GPU that is the limit, "
            f"{change_of(t4['images_per_s'], t4_unbatched['images_per_s'])} where preprocessing "
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
            f"embedded mode: **{text(start['seconds'])} s** from start until {start['pipelines']} "
            "pipelines have classified a picture, models exported before. Compose, image "
            "download and engine build: not tested here",
        ),
    ]
    return "## What the claims come to\n\n" + markdown(("claim", "here"), rows)


def _fewer_instances(results: Results) -> str:
    shipped_MB = results.swept(SHIPPED, 1)["pss_MB"]
    if not any(row["variant"] == TUTORIAL for row in results.bench["sweep"]):
        return "; the tutorials' 32 + 32 instances did not start on this machine"
    tutorial_MB = results.swept(TUTORIAL, 1)["pss_MB"]
    return (
        f", and 1 + 1 instances ({shipped_MB} MB in all) instead of 32 + 32 ({tutorial_MB} MB, "
        f"−{100 * (1 - shipped_MB / tutorial_MB):.0f} %)"
    )


def reached(results: Results) -> str:
    rows = [
        (target.measure, target.wanted, target.measured, "yes" if target.holds else "**no**")
        for target in targets.evaluate(results.bench, results.parity)
    ]
    return "## Targets\n\n" + markdown(("measure", "target", "measured", "holds"), rows)
