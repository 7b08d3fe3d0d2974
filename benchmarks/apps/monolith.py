"""A monolith: FastAPI with ONNX Runtime inside, no Triton at all.

BENCH_ONNX (file, or empty for an inference that takes no time).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool

from benchmarks.apps.common_steps import interpretation, preparation
from common.preprocess.preprocessor import available_cores

app = FastAPI()
_prepare = preparation()
_interpret = interpretation()


def _inference(path: str) -> Callable[[np.ndarray], np.ndarray]:
    if not path:
        logits = np.linspace(-4, 4, 1000, dtype=np.float32)
        return lambda row: logits
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # As the embedded backend sets it, for the same reason.
    options.intra_op_num_threads = available_cores()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda row: session.run(None, {name: row[None]})[0][0]


_infer = _inference(os.environ.get("BENCH_ONNX", ""))


def _answer(text: str) -> dict[str, Any]:
    return _interpret(_infer(_prepare(text)))


@app.post("/predict")
async def predict(request: Request) -> dict[str, Any]:
    """One image in, five classes out."""
    body = await request.json()
    return await run_in_threadpool(_answer, body["RAW_IMAGE"])
