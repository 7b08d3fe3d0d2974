"""The page on one image: speed of preprocessing, agreement of answers."""

from __future__ import annotations

from typing import Any

from benchmarks.results import SIZES, Results, markdown, median, text


def preprocessing(results: Results) -> str:
    preprocess = results.bench["preprocess"]
    rows = [
        (
            f"{SIZES[row['size']]} {row['format']}, {row['mean_kB']} kB",
            text(row["ms"]["ours"]),
            *(text(row["ms"][name]) for name in ("opencv", "torchvision")),
            text(row["over_bare"]) if "over_bare" in row else "",
            *(text(row["times_faster_than"][name]) for name in ("torchvision", "opencv")),
        )
        for row in preprocess["single"]
    ]
    batch, scaling = preprocess["batch"], preprocess["scaling"]
    rates = scaling["images_per_s"]
    steps = results.single("in500")["steps_ms"]
    pooled = results.single("in500")["ms"]["ours_pooled"]
    table = markdown(
        (
            *("one image, one thread", "ours, ms", "OpenCV, ms", "torchvision, ms"),
            *("ours over a bare decode", "× torchvision", "× OpenCV"),
        ),
        rows,
    )
    return f"""## Preprocessing

Ours takes base64 text and gives uint8 pixels; the others take the file's bytes. All run in the \
calling thread; through its thread pool, as served, ours takes {text(pooled)} ms at 500 × 375: \
a thread has to wake up. OpenCV is the tutorials' code (`imdecode`, `INTER_LINEAR`, float32 \
normalise, transpose); it does not antialias, and its PNG and WebP decoders are faster than \
Pillow's. "Bare decode" is libjpeg-turbo to RGB and nothing else. × is how \
many times faster ours is. At 12 megapixels the others fill 36 MB of fresh memory a picture, and \
what that costs depends on the state of the host's memory: these ratios move most between runs.

{table}

At 500 × 375, {median(steps["decode"])} ms are base64 and decoding and \
{median(steps["resize"])} ms resizing. A request of {batch["images"]} images on \
{batch["threads"]} threads takes {text(batch["ms"]["ours"])} ms an image, \
{text(batch["times_faster_than"]["torchvision"])} times as fast as torchvision and \
{text(batch["times_faster_than"]["opencv"])} times as fast as OpenCV in a thread pool of that \
size. {scaling["cores"]} threads in one process give {text(rates["threads"])} images/s, \
{text(scaling["threads_over_one"])} times one thread; {scaling["cores"]} processes give \
{text(rates["instances"])}.

![Time per image by size](benchmarks/preprocess.png)"""


def agreement(results: Results) -> str:
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
        (name, *(f"{figures[key]:g}" if key in figures else "" for key in keys))
        for name, figures in {**found["sets"], "all": found["all"]}.items()
    ]
    return markdown(
        (
            *("set", "crops", "near-ties", "top-1 %", "top-1 % without ties"),
            *("reference's best in our top-5 %", "top-5 overlap %", "OpenCV top-1 % without ties"),
            *("distance, median", "P99"),
        ),
        rows,
    )
