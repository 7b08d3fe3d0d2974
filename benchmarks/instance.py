"""One preprocessing process with one thread, as Triton's instance_group starts them.

Run as ``python -m benchmarks.instance SECONDS``: says "ready", then answers each line on its
standard input with the images per second that it does for that long.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks import pictures, pipelines
from common.preprocess.preprocessor import Preprocessor

PIPELINE = "resnet50"


class Instances:
    """Several of them, measured at the same time."""

    def __init__(self, count: int, seconds: float) -> None:
        command = [sys.executable, "-m", "benchmarks.instance", str(seconds)]
        path = os.pathsep.join([str(pipelines.PROJECT), str(pipelines.PROJECT / "scripts")])
        self._processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
            )
            for _ in range(count)
        ]
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                self.close()
                raise RuntimeError("a preprocessing process did not start")

    def rate(self) -> float:
        """Images per second of all together."""
        for process in self._processes:
            assert process.stdin is not None
            print("go", file=process.stdin, flush=True)
        return sum(float(p.stdout.readline()) for p in self._processes if p.stdout is not None)

    def close(self) -> None:
        """End them: their input closes."""
        for process in self._processes:
            process.communicate(timeout=60)

    def __enter__(self) -> Instances:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def images_per_s(stage: Preprocessor, texts: Sequence[bytes], seconds: float) -> float:
    """What a stage does for a while, several images per call."""
    started, images = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds:
        stage(texts)
        images += len(texts)
    return images / elapsed


def texts() -> list[bytes]:
    """The photographs as a client sends them."""
    return [base64.b64encode(data) for data in pictures.picture_set("in500").files]


def main() -> None:
    """Serve the parent until it closes the pipe."""
    stage, elements, seconds = (
        pipelines.preprocessor(PIPELINE, threads=1),
        texts(),
        float(sys.argv[1]),
    )
    print("ready", flush=True)
    for _ in sys.stdin:
        print(images_per_s(stage, elements, seconds), flush=True)
    stage.close()


if __name__ == "__main__":
    main()
