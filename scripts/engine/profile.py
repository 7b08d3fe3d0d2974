"""The engine's shape profile, read from ``configs/tensorrt.pbtxt``: the one place it is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine import EnvironmentProblem, pbtxt

# Bytes per element of the input types a Triton TensorRT model can take here.
ELEMENT_BYTES = {"TYPE_UINT8": 1, "TYPE_FP16": 2, "TYPE_FP32": 4}


@dataclass(frozen=True)
class EngineProfile:
    """Input and batch range of an engine; dims without the batch axis."""

    input_name: str
    input_type: str
    input_dims: tuple[int, ...]
    output_name: str
    opt_batch: int
    max_batch: int
    gpu_indexes: tuple[int, ...]

    def shape(self, batch: int) -> tuple[int, ...]:
        """The input's full shape for a batch size."""
        return (batch, *self.input_dims)

    def spec(self, batch: int) -> str:
        """A trtexec shape argument, as in ``input:8x224x224x3``."""
        return f"{self.input_name}:" + "x".join(str(size) for size in self.shape(batch))

    def to_json(self) -> dict[str, dict[str, list[int]]]:
        """The profile as it stands in manifest.json under plan.shapes."""
        batches = {"min": 1, "opt": self.opt_batch, "max": self.max_batch}
        return {self.input_name: {key: list(self.shape(n)) for key, n in batches.items()}}


def read_profile(config: Path) -> EngineProfile:
    """Read the profile of a ``configs/tensorrt.pbtxt``; raises EnvironmentProblem.

    max = max_batch_size. opt = parameter ``opt_batch_size``, else the largest
    preferred_batch_size, else a quarter of max. GPUs = those of instance_group, empty for all.
    """
    try:
        message = pbtxt.parse(config.read_text(encoding="utf-8"))
        return _profile(message)
    except FileNotFoundError as error:
        raise EnvironmentProblem(
            f"{config} does not exist: this pipeline has no TensorRT configuration"
        ) from error
    except (KeyError, IndexError, ValueError) as error:
        raise EnvironmentProblem(f"{config} gives no engine profile: {error}") from error


def _profile(message: pbtxt.Message) -> EngineProfile:
    if len(message["input"]) != 1 or len(message["output"]) != 1:
        raise ValueError("exactly one input and one output are expected")
    network_input, network_output = message["input"][0], message["output"][0]
    max_batch = int(message["max_batch_size"][0])
    opt_batch = _opt_batch(message, max_batch)
    if not 1 <= opt_batch <= max_batch:
        raise ValueError(f"the usual batch {opt_batch} is not within 1 and {max_batch}")
    input_type = str(network_input["data_type"][0])
    if input_type not in ELEMENT_BYTES:
        raise ValueError(f"input type {input_type} is none of {', '.join(ELEMENT_BYTES)}")
    return EngineProfile(
        input_name=str(network_input["name"][0]),
        input_type=input_type,
        input_dims=tuple(int(size) for size in network_input["dims"]),
        output_name=str(network_output["name"][0]),
        opt_batch=opt_batch,
        max_batch=max_batch,
        gpu_indexes=tuple(
            int(index)
            for group in message.get("instance_group", [])
            for index in group.get("gpus", [])
        ),
    )


def _opt_batch(message: pbtxt.Message, max_batch: int) -> int:
    for parameter in message.get("parameters", []):
        if parameter["key"][0] == "opt_batch_size":
            return int(parameter["value"][0]["string_value"][0])
    preferred = [
        int(size)
        for batching in message.get("dynamic_batching", [])
        for size in batching.get("preferred_batch_size", [])
    ]
    return max(preferred, default=max(1, max_batch // 4))
