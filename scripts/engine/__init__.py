"""What scripts/build_engine.py is made of: profile, host facts, trtexec, FP16 graph, parity.

``profile``, ``host``, ``trtexec`` and ``fingerprint`` need the standard library only, because the
serving container compares a plan with its host before every start. ``half`` and ``parity`` need
onnx, onnxruntime and numpy, which the export image has.
"""


class EngineError(Exception):
    """A negative result: the engine cannot be built or must not be served (exit code 1)."""


class EnvironmentProblem(Exception):
    """Something around the build is missing: trtexec, a GPU, the exported model (exit code 2)."""
