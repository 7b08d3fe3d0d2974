"""Alerts on the server: is it there, does it serve every model, do its processes live?"""

from __future__ import annotations

from alerting.rule import JOB, PAGE, TICKET, Alert, Group

SERVER = Group(
    "triton",
    (
        Alert(
            "TritonTargetDown",
            PAGE,
            "1m",
            f"up{{{JOB}}} == 0",
            "{{ $labels.instance }}: Triton does not answer the metrics scrape",
            "The server is down, still loading its models, or cut off from Prometheus.",
        ),
        Alert(
            "TritonTargetAbsent",
            PAGE,
            "2m",
            f"absent(up{{{JOB}}})",
            "Prometheus has no Triton target at all",
            "Nothing is watched: the scrape job triton is missing or has no target.",
        ),
        Alert(
            "TritonModelMissing",
            PAGE,
            "1m",
            f"""
            pipeline:expected_model:info * on () group_left () count(up{{{JOB}}} == 1)
            > on (model) (
              count by (model) (
                count by (model, instance) (nv_inference_request_success{{{JOB}}})
              )
              or on (model) pipeline:expected_model:info * 0
            )
            """,
            "{{ $labels.model }} is not served by every Triton that is up",
            "Triton answers, but this model is not loaded: its load failed or it was unloaded.",
        ),
        Alert(
            "TritonRestarting",
            TICKET,
            "0m",
            f"""
            max by (job, instance) (
              resets(nv_inference_request_success{{{JOB},model=~".+_ensemble"}}[30m])
            ) >= 3
            """,
            "{{ $labels.instance }}: Triton restarted {{ $value }} times within 30 minutes",
            "The container is in a restart loop, or models are reloaded again and again.",
        ),
        Alert(
            "TritonPythonStubDown",
            PAGE,
            "0m",
            f"""
            sum by (job, instance, model) (
              increase(nv_inference_request_failure{{
                {JOB},model=~".+_(preprocess|postprocess)",reason="BACKEND"
              }}[2m])
            ) > 0
            """,
            "{{ $labels.model }}: a Python process of this stage died or hangs",
            "Triton does not restart it, and health checks may stay green, while every request "
            "that is routed to it fails.",
            keep="5m",
        ),
        Alert(
            "TritonInferenceFailing",
            PAGE,
            "1m",
            f"""
            sum by (job, instance, model) (
              rate(nv_inference_request_failure{{
                {JOB},model=~".+_inference",reason="BACKEND"
              }}[2m])
            ) > 0
            """,
            "{{ $labels.model }}: the network fails on requests",
            "ONNX Runtime or TensorRT returns errors: out of memory, a lost GPU, or a bad engine.",
        ),
        Alert(
            "TritonStageInstancesLeaked",
            TICKET,
            "15m",
            f"""
            sum by (job, instance, model) (pipeline_stage_instances{{{JOB}}})
            > on (model) group_left () pipeline:expected_stage_instances:count
            """,
            "{{ $labels.model }}: {{ $value }} processes counted, more than configured",
            "A process was killed without a restart of the server, or an old one never ended.",
        ),
        Alert(
            "TritonHostMemoryAlmostFull",
            TICKET,
            "10m",
            f"""
            nv_cpu_memory_used_bytes{{{JOB}}} / nv_cpu_memory_total_bytes{{{JOB}}} > 0.95
            """,
            "{{ $labels.instance }}: {{ $value | humanizePercentage }} of the host's memory in use",
            "The kernel will soon kill a process; Triton's stubs are likely victims.",
        ),
    ),
)

GPU = Group(
    "gpu",
    (
        Alert(
            "TritonGpuSaturated",
            TICKET,
            "10m",
            f"""
            max by (job) (avg_over_time(nv_gpu_utilization{{{JOB}}}[10m])) > 0.95
            and on (job)
            max by (job) (model:queue_seconds:mean5m{{model=~".+_inference"}}) > 0.05
            """,
            "The GPU is {{ $value | humanizePercentage }} busy and requests wait for it",
            "A busy GPU alone is no fault; together with a queue wait over 50 ms it is.",
        ),
        Alert(
            "TritonGpuMemoryAlmostFull",
            TICKET,
            "10m",
            f"nv_gpu_memory_used_bytes{{{JOB}}} / nv_gpu_memory_total_bytes{{{JOB}}} > 0.95",
            "{{ $labels.gpu_uuid }}: {{ $value | humanizePercentage }} of the GPU's memory in use",
            "The next model load or a larger batch can fail for want of memory.",
        ),
        Alert(
            "TritonGpuMetricsMissing",
            TICKET,
            "10m",
            f"""
            max by (job, instance) (
              pipeline_build_info{{{JOB},config=~"tensorrt|onnx"}} > 0
            )
            unless on (job, instance) nv_gpu_utilization{{{JOB}}}
            """,
            "{{ $labels.instance }} serves on a GPU, but reports no GPU metrics",
            "DCGM did not start in the server, or the GPU is partitioned by MIG: the other GPU "
            "alerts are blind.",
        ),
        Alert(
            "GpuXidError",
            PAGE,
            "0m",
            "max by (job, instance, gpu, UUID) (changes(DCGM_FI_DEV_XID_ERRORS[10m])) > 0",
            "GPU {{ $labels.gpu }} of {{ $labels.instance }} reported an XID error",
            "The driver saw a fault of the GPU or of its memory. Needs the dcgm-exporter target.",
        ),
    ),
)
