"""A recording stand-in for trtexec: no TensorRT, no GPU.

``behaviour.json`` beside the executable says which generation it plays and what goes wrong;
``calls.jsonl`` gets every command line. Option names per generation: NVIDIA's sampleOptions.cpp of
8.6, 10.3, 10.16 and 11.1. A plan is a marker followed by the ONNX file, so that the run of a plan
can be computed by ONNX Runtime.
"""

import json
import sys
import time
from pathlib import Path

PLACE = Path(__file__).resolve().parent
MARKER = b"stand-in plan, no TensorRT\n"

COMMON = [
    "--onnx",
    "--saveEngine",
    "--loadEngine",
    "--minShapes",
    "--optShapes",
    "--maxShapes",
    "--shapes",
    "--memPoolSize",
    "--timingCacheFile",
    "--builderOptimizationLevel",
    "--versionCompatible",
    "--hardwareCompatibilityLevel",
    "--tempdir",
    "--inputIOFormats",
    "--device",
    "--verbose",
    "--profilingVerbosity",
    "--noTF32",
    "--avgTiming",
    "--loadInputs",
    "--exportOutput",
    "--iterations",
    "--warmUp",
    "--duration",
    "--skipInference",
    "--useCudaGraph",
    "--noDataTransfers",
    "--useSpinWait",
    "--help",
]
PRECISION = ["--fp16", "--bf16", "--best", "--precisionConstraints", "--layerPrecisions"]
# generation: (NV_TENSORRT_VERSION in the banner, options that the help lists)
GENERATIONS = {
    "8.6": (8601, [*COMMON, "--fp16", "--best", "--workspace", "--explicitBatch", "--buildOnly"]),
    "10.3": (100300, [*COMMON, *PRECISION, "--stronglyTyped", "--getPlanVersionOnly"]),
    "10.16": (101601, [*COMMON, *PRECISION, "--stronglyTyped", "--getPlanVersionOnly"]),
    "11.1": (110100, [*COMMON, "--stronglyTyped", "--includeDataTransfers", "--noCudaGraph"]),
    # A later 11 may drop what it already ignores.
    "11.9": (110900, [*COMMON, "--includeDataTransfers", "--noCudaGraph"]),
}


def main() -> int:
    behaviour = json.loads((PLACE / "behaviour.json").read_text())
    number, options = GENERATIONS[behaviour["generation"]]
    given = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    with (PLACE / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\n")
    banner = f"[TensorRT v{number}]" if behaviour.get("banner", True) else ""
    print(f"&&&& RUNNING TensorRT.trtexec {banner} # trtexec {' '.join(sys.argv[1:])}")
    if "--help" in given:
        print("=== Model Options ===")
        print(
            "\n".join(f"  {option}=spec       What it does (default = none)" for option in options)
        )
        return 0
    refused = [option for option in given if option not in options]
    refused += [option for option in behaviour.get("refuses", []) if option in given]
    if refused:
        print(f"[E] Unknown option: {refused[0]} ")
        return 1
    if "--onnx" in given:
        return build(given, behaviour)
    return run(given, behaviour)


def build(given: dict, behaviour: dict) -> int:
    plan = MARKER + Path(given["--onnx"]).read_bytes()
    if behaviour.get("build_fails"):
        print("\n".join(f"[I] line {number}" for number in range(50)))
        print("[E] Error[10]: Could not find any implementation for node conv1")
        return 1
    size = behaviour.get("plan_bytes", len(plan))
    target = Path(given["--saveEngine"])
    if behaviour.get("hangs"):
        target.write_bytes(plan[: size // 2])
        (PLACE / "hanging").touch()
        time.sleep(60)
    if not behaviour.get("writes_nothing"):
        target.write_bytes(plan[:size].ljust(size, b"\0"))
    Path(given["--timingCacheFile"]).write_bytes(b"kernel times")
    return 0


def run(given: dict, behaviour: dict) -> int:
    import numpy
    import onnxruntime

    plan = Path(given["--loadEngine"]).read_bytes()
    assert plan.startswith(MARKER)
    name, _, shape = given["--shapes"].partition(":")
    input_name, _, file = given["--loadInputs"].partition(":")
    assert name == input_name
    batch = numpy.fromfile(file, numpy.uint8).reshape([int(size) for size in shape.split("x")])
    session = onnxruntime.InferenceSession(plan[len(MARKER) :])
    output = session.get_outputs()[0].name
    logits = session.run([output], {name: batch})[0] * behaviour.get("sign", 1)
    values = [f"{value:.6g}" for value in logits.ravel()]
    if behaviour.get("nan"):
        values[0] = "-nan"
    # Laid out as trtexec's exportJSONOutput does.
    Path(given["--exportOutput"]).write_text(
        f'[\n  {{ "name" : "{output}"\n  , "dimensions" : "{"x".join(map(str, logits.shape))}"\n'
        f'  , "values" : [ {", ".join(values)} ]\n  }}\n]\n'
    )
    return 0


sys.exit(main())
