"""The checks: engine, backend, parity with the CPU, GPU metrics."""

from __future__ import annotations

from collections.abc import Callable

from common import manifest
from common.preprocess.preprocessor import Preprocessor
from demonstration import photographs
from demonstration.steps import DemoError
from doctor_checks import engines
from doctor_checks.finding import Finding, Status, passed, problem
from doctor_checks.model_configs import read_configs
from doctor_checks.stages import preprocess_config
from engine import EngineError, EnvironmentProblem, parity
from gpu_checks.server import SERVE, Stack, get, metric_lines, served_logits

REBUILD_ANYWAY = "docker compose run --rm export python3 scripts/build_engine.py --force"
GPU_METRICS = (
    "nv_gpu_utilization",
    "nv_gpu_memory_total_bytes",
    "nv_gpu_memory_used_bytes",
    "nv_gpu_power_usage",
)


def check_engine(stack: Stack) -> list[Finding]:
    """An engine exists and fits manifest, NGC_RELEASE, GPU and driver."""
    found = [
        finding
        for finding in engines.check_engine(stack.project)
        if finding.detail.startswith(f"{stack.target.pipeline} version ")
    ]
    return [
        problem("engine", finding.detail, finding.fix)
        if finding.status is Status.NOT_APPLICABLE
        else finding
        for finding in found
    ]


def check_live(stack: Stack) -> list[Finding]:
    """The server answers through the tensorrt backend, from the model of this manifest."""
    config = get(f"{stack.server}/v2/models/{stack.model}/config").json()
    findings = []
    backend = config.get("backend")
    if backend == "tensorrt":
        findings.append(passed("backend", f"{stack.model} runs on tensorrt"))
    else:
        findings.append(problem("backend", f"{stack.model} runs on {backend}", SERVE))
    served = manifest.read(stack.target.folder)["onnx"]["sha256"]
    lines = metric_lines(stack, "pipeline_build_info")
    ours = [line for line in lines if f'pipeline="{stack.target.pipeline}"' in line]
    if any('config="tensorrt"' in line and served in line for line in ours):
        findings.append(passed("build info", f"config tensorrt, model {served[:12]}…"))
    else:
        seen = "; ".join(ours) or "no pipeline_build_info"
        cause = f"the metrics name another configuration or model: {seen}"
        findings.append(problem("build info", cause, "docker compose restart triton"))
    return findings


def check_parity(stack: Stack) -> list[Finding]:
    """Logits of the photographs: the served engine against ONNX Runtime on the CPU."""
    config = read_configs(stack.project).base(f"{stack.target.pipeline}_preprocess")
    if config is None:
        return [problem("parity", "the preprocess configuration is not readable", "make lint")]
    try:
        pictures = photographs.load()
    except DemoError as error:
        raise EnvironmentProblem(str(error)) from error
    preprocessor = Preprocessor(preprocess_config(config))
    try:
        batch, reports = preprocessor([picture.data for picture in pictures])
    finally:
        preprocessor.close()
    failed = [str(report.error) for report in reports if report.error]
    if failed:
        return [problem("parity", f"a photograph is refused: {failed[0]}", "make lint")]
    model = stack.target.folder / manifest.MODEL_NAME
    reference = parity.onnx_logits(model, stack.target.profile, batch)
    try:
        agreement = parity.require_agreement("the engine", reference, served_logits(stack, batch))
    except EngineError as error:
        return [problem("parity", str(error), REBUILD_ANYWAY)]
    return [
        passed(
            "parity",
            f"{agreement.images} photographs: cosine >= {agreement.cosine_min:.6f}, largest logit "
            f"difference {agreement.max_abs_logit_diff:.3f}, top-1 equal",
        )
    ]


def check_metrics(stack: Stack) -> list[Finding]:
    """Triton exports the GPU's metrics."""
    missing = [name for name in GPU_METRICS if not metric_lines(stack, name)]
    if missing:
        cause = f"Triton exports no {', '.join(missing)}"
        fix = "give the triton service the GPU (deploy.resources) and the utility capability"
        return [problem("GPU metrics", cause, fix)]
    used = sum(float(line.split()[-1]) for line in metric_lines(stack, GPU_METRICS[2]))
    return [passed("GPU metrics", f"all present, {used / 1e9:.1f} GB of GPU memory in use")]


CHECKS: tuple[Callable[[Stack], list[Finding]], ...] = (
    check_engine,
    check_live,
    check_parity,
    check_metrics,
)
