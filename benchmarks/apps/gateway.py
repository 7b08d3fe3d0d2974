"""A gateway: prepares and interprets in FastAPI, and asks Triton for the network alone.

BENCH_TRITON (host:port), BENCH_MODEL (the inference model).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tritonclient.http as triton
from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from tritonclient.http.aio import InferenceServerClient

from benchmarks.apps.common_steps import interpretation, preparation

app = FastAPI()
_prepare = preparation()
_interpret = interpretation()
_model = os.environ["BENCH_MODEL"]
_clients: list[InferenceServerClient] = []


@app.post("/predict")
async def predict(request: Request) -> dict[str, Any]:
    """One image in, five classes out."""
    body = await request.json()
    row = await run_in_threadpool(_prepare, body["RAW_IMAGE"])
    return _interpret(await _infer(row))


async def _infer(row: np.ndarray) -> np.ndarray:
    if not _clients:
        # Made here: aiohttp wants the running loop of its worker.
        _clients.append(InferenceServerClient(os.environ["BENCH_TRITON"]))
    kind = "UINT8" if row.dtype == np.uint8 else "FP32"
    tensor = triton.InferInput("input", [1, *row.shape], kind)
    tensor.set_data_from_numpy(row[None])
    wanted = [triton.InferRequestedOutput("output", binary_data=True)]
    answer = await _clients[0].infer(_model, [tensor], outputs=wanted)
    return answer.as_numpy("output")[0]
