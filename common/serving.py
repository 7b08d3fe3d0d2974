"""The two Python stages of a pipeline: what their ``model.py`` hands every call to."""

from __future__ import annotations

import functools
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common import manifest, triton
from common.admission import Admission
from common.errors import RequestError
from common.parameters import PreprocessConfig, parse_postprocess, parse_preprocess
from common.postprocess.options import RequestOptions
from common.postprocess.postprocessor import Answer, Postprocessor
from common.preprocess.preprocessor import ImageReport, Preprocessor

log = logging.getLogger(__name__)

_KNOWN_PARAMETERS = 128


class PreprocessStage:
    """RAW_IMAGE STRING [N,1] → PREPROCESSED_IMAGE, IMAGE_STATUS STRING, RECEIVED_NS INT64 [N,1]."""

    def __init__(self, args: Mapping[str, str]) -> None:
        model = triton.Model.from_args(args)
        with triton.refusing_bad_configuration():
            config = parse_preprocess(model.parameters, model.outputs["PREPROCESSED_IMAGE"])
            served = model.served_manifest()
            _check_recipe(config, served)
            self._preprocessor = Preprocessor(config)
        self._admission = Admission(config.max_pending_images, config.max_pending_bytes)
        self._metrics = model.metrics()
        self._metrics.build_info(**_build(config, served))

    def execute(self, requests: Sequence[Any]) -> None:
        """Start on the requests; each is answered from the thread that ends its last image.

        Answering later through the response sender keeps this process free for the next request:
        one process then uses every core, and a slow picture holds up nobody else.
        """
        for request in requests:
            self._start(request, request.get_response_sender())

    def _start(self, request: Any, sender: Any) -> None:
        started, received_ns = time.perf_counter(), time.monotonic_ns()
        elements = triton.attempt(_elements, request)
        if not isinstance(elements, list):
            triton.send(sender, elements)
            return
        size_bytes = sum(map(len, elements))
        refusal = self._admission.acquire(len(elements), size_bytes)
        if refusal:
            triton.send(sender, triton.unavailable(refusal))
            return

        def finish(batch: np.ndarray, reports: list[ImageReport]) -> None:
            try:
                triton.send(sender, triton.attempt(_preprocessed, batch, reports, received_ns))
            except Exception:
                log.exception("an answer could not be sent")
            finally:
                self._admission.release(len(reports), size_bytes)
            self._observe(reports, time.perf_counter() - started)

        self._preprocessor.submit(elements, finish)

    def _observe(self, reports: Sequence[ImageReport], duration_s: float) -> None:
        for report in reports:
            self._metrics.input(report.input_bytes, report.pixels / 1e6 if report.pixels else None)
            if report.error is None:
                self._metrics.preprocess_steps(report.decode_s, report.resize_s, report.normalise_s)
            else:
                self._metrics.image_error(report.error.code)
        self._metrics.stage_done(duration_s)

    def close(self) -> None:
        """Finish what is queued."""
        self._preprocessor.close()
        self._metrics.close()


class PostprocessStage:
    """LOGITS FP32 [N,C], IMAGE_STATUS, RECEIVED_NS → OUTPUT_RESULTS STRING [N,1]."""

    def __init__(self, args: Mapping[str, str]) -> None:
        model = triton.Model.from_args(args)
        with triton.refusing_bad_configuration():
            class_count = int(model.inputs["LOGITS"]["dims"][0])
            config = parse_postprocess(model.parameters)
            self._postprocessor = Postprocessor(config, model.version_folder, class_count)
        # Clients send the same few parameters again and again.
        self._options = functools.lru_cache(_KNOWN_PARAMETERS)(self._parse_options)
        self._metrics = model.metrics()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests, each with its own options."""
        return [triton.attempt(self._answer, request) for request in requests]

    def _answer(self, request: Any) -> Any:
        started = time.perf_counter()
        try:
            options = self._options(request.parameters())
        except RequestError:
            self._metrics.request_refused()
            raise
        logits = triton.input_array(request, "LOGITS")
        statuses = [text.decode() for text in triton.input_array(request, "IMAGE_STATUS").flat]
        answers = self._postprocessor(logits, statuses, options)
        self._observe(answers, int(triton.input_array(request, "RECEIVED_NS").min()))
        self._metrics.stage_done(time.perf_counter() - started)
        return triton.response(OUTPUT_RESULTS=triton.strings(answer.text for answer in answers))

    def _parse_options(self, parameters: str) -> RequestOptions:
        return self._postprocessor.options(json.loads(parameters or "{}"))

    def _observe(self, answers: Sequence[Answer], received_ns: int) -> None:
        for answer in answers:
            if answer.arose_here and answer.error_code:
                self._metrics.image_error(answer.error_code)
            if answer.top1_probability is not None:
                self._metrics.top1_confidence(answer.top1_probability)
        empty = sum(a.error_code is None and a.predictions == 0 for a in answers)
        if empty:
            self._metrics.below_threshold(empty)
        end_to_end_s = (time.monotonic_ns() - received_ns) / 1e9
        self._metrics.request_done([a.error_code or "" for a in answers], end_to_end_s)

    def close(self) -> None:
        """Finish what is queued."""
        self._metrics.close()


def _check_recipe(config: PreprocessConfig, served: Mapping[str, Any] | None) -> None:
    if served is None:
        return
    configured = manifest.Recipe(
        config.resize_size,
        config.crop_size,
        config.resize_mode,
        config.mean or (),
        config.std or (),
        config.mean is None,
    )
    differences = manifest.recipe_of(served).differences(configured)
    if differences:
        raise manifest.ManifestError(
            f"the recipe contradicts the model's manifest.json: {'; '.join(differences)}"
        )


def _build(config: PreprocessConfig, served: Mapping[str, Any] | None) -> dict[str, str]:
    served = served or {"weights": {}, "onnx": {}}
    return {
        "git": os.environ.get("GIT_REVISION", ""),
        "config": os.environ.get("MODEL_CONFIG", ""),
        "weights": str(served["weights"].get("name", "")),
        "onnx_sha256": str(served["onnx"].get("sha256", "")),
        "recipe": f"{config.resize_mode} {config.resize_size}/{config.crop_size}",
    }


def _elements(request: Any) -> list[bytes]:
    return list(triton.input_array(request, "RAW_IMAGE").reshape(-1))


def _preprocessed(batch: np.ndarray, reports: Sequence[ImageReport], received_ns: int) -> Any:
    return triton.response(
        PREPROCESSED_IMAGE=batch,
        IMAGE_STATUS=triton.strings(r.error.status.encode() if r.error else b"" for r in reports),
        RECEIVED_NS=np.full((len(reports), 1), received_ns, np.int64),
    )
