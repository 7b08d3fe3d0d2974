"""Triton Python model: answers after as long as a GPU would take, by a latency law.

Parameters: ``fixed_us`` and ``per_image_us``; one batch of n images takes fixed + n · per image.
One instance takes one batch at a time, as one engine on one GPU does. Both 0: null inference.
"""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """What Triton's Python backend calls."""

    def initialize(self, args):
        """Read the law."""
        parameters = json.loads(args["model_config"])["parameters"]
        self._fixed_s, self._per_image_s = (
            float(parameters[key]["string_value"]) / 1e6 for key in ("fixed_us", "per_image_us")
        )
        self._logits = np.linspace(-4, 4, 1000, dtype=np.float32)

    def execute(self, requests):
        """Wait once for the whole batch, then answer every request."""
        due = time.perf_counter()
        inputs = [pb_utils.get_input_tensor_by_name(request, "input") for request in requests]
        counts = [tensor.shape()[0] for tensor in inputs]
        due += self._fixed_s + self._per_image_s * sum(counts)
        wait = due - time.perf_counter()
        if wait > 0 and self._fixed_s + self._per_image_s > 0:
            time.sleep(wait)
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("output", np.tile(self._logits, (count, 1)))]
            )
            for count in counts
        ]
