"""Latency laws of simulated GPUs: assumptions, not measurements.

fixed + n · per image, for ResNet50 as an FP16 engine. The sizes of the numbers are chosen to lie
near what such cards are known to do, rounded; whoever has the card replaces them with two runs of
``trtexec --loadEngine`` at batch 1 and 32. "large_t4" is a network ten times as heavy on the
smallest card, where the GPU and not the preprocessing is the limit.
"""

from __future__ import annotations

from benchmarks.repositories import Law

LAWS = {
    "t4": Law(fixed_us=1200, per_image_us=250),
    "l4": Law(fixed_us=800, per_image_us=120),
    "a100": Law(fixed_us=600, per_image_us=50),
    "h100": Law(fixed_us=400, per_image_us=25),
}
HEAVY = {"large_t4": Law(fixed_us=12_000, per_image_us=2_500)}
MAX_BATCH = 32


def capacity_images_per_s(law: Law) -> float:
    """What the card does when it is never idle and every batch is full."""
    return law.images_per_s(MAX_BATCH)
