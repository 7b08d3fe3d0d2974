"""Alerts on the pipelines: errors, queues, latency, drift, releases, and our own metrics."""

from __future__ import annotations

from alerting.recording import FAILED_REQUESTS
from alerting.rule import JOB, PAGE, TICKET, Alert, Group

PIPELINE = Group(
    "pipeline",
    (
        Alert(
            "PipelineCanaryFailing",
            PAGE,
            "2m",
            f"""
            sum by (job, instance, model) (
              increase(nv_inference_request_success{{{JOB},model=~".+_ensemble"}}[5m])
            ) == 0
            and on (job, instance) up{{{JOB}}} == 1
            """,
            "{{ $labels.model }} answered nothing for five minutes",
            "The container's health check sends an image through every ensemble every few "
            "seconds; not one came back.",
        ),
        Alert(
            "PipelineServerFaults",
            TICKET,
            "0m",
            f"""
            sum by (job, pipeline, stage, code) (
              increase(pipeline_errors_total{{{JOB},code=~"INTERNAL|INVALID_MODEL_OUTPUT"}}[15m])
            ) > 0
            """,
            "{{ $labels.pipeline }}: images failed with {{ $labels.code }} in {{ $labels.stage }}",
            "A fault of ours reached clients inside HTTP 200; the server log says which.",
        ),
        Alert(
            "PipelineErrorCodeRateHigh",
            TICKET,
            "10m",
            'pipeline:errors:ratio_rate5m{code!~"INTERNAL|INVALID_MODEL_OUTPUT"} > 0.05',
            "{{ $labels.pipeline }}: {{ $value | humanizePercentage }} of the images are "
            "{{ $labels.code }}",
            "Clients send what the service cannot take: a client's release went wrong, or a limit "
            "is too tight.",
        ),
        Alert(
            "PipelineRefusedRequestsHigh",
            TICKET,
            "10m",
            f"""
            sum by (job, pipeline) (rate(pipeline_requests_total{{{JOB},outcome="refused"}}[5m]))
            / (pipeline:requests:rate5m > 0) > 0.05
            """,
            "{{ $labels.pipeline }}: {{ $value | humanizePercentage }} of the requests are refused",
            "Their request parameters are wrong (HTTP 400): a client does not match this version.",
        ),
        Alert(
            "PipelineQueueGrowing",
            PAGE,
            "5m",
            f"""
            sum by (job, model) (nv_inference_pending_request_count{{{JOB}}}) > 20
            and
            sum by (job, model) (deriv(nv_inference_pending_request_count{{{JOB}}}[5m])) > 0
            """,
            "{{ $labels.model }}: {{ $value }} requests wait, and the queue grows",
            "More arrives than this model can do: the service slows down until requests time out.",
        ),
        Alert(
            "PipelineQueueRejects",
            PAGE,
            "5m",
            f"""
            sum by (job, pipeline) (rate({FAILED_REQUESTS}[5m]))
            - (
              sum by (job, pipeline) (rate(pipeline_requests_total{{{JOB},outcome="refused"}}[5m]))
            )
            - (
              sum by (job, pipeline) (
                label_replace(
                  rate(nv_inference_request_failure{{{JOB},reason="BACKEND"}}[5m]),
                  "pipeline", "$1", "model", "(.+)_[a-z]+"
                )
              )
            ) > 0.1
            """,
            '{{ $labels.pipeline }}: {{ $value | printf "%.2f" }} requests/s are turned away',
            "Requests fail that no stage has failed and no client has spoilt: a queue is full "
            "(HTTP 503).",
        ),
        Alert(
            "PipelineQueueWaitHigh",
            TICKET,
            "10m",
            "model:queue_seconds:mean5m > 0.1",
            "{{ $labels.model }}: requests wait {{ $value | humanizeDuration }} in the queue",
            "The model's instances are all busy; latency is made of waiting.",
        ),
        Alert(
            "PipelineStageLatencyHigh",
            TICKET,
            "10m",
            """
            stage:pipeline_stage_duration_seconds:p95_5m
            > on () group_left () slo:latency:threshold_seconds / 2
            """,
            "{{ $labels.pipeline }}: p95 of {{ $labels.stage }} is {{ $value | humanizeDuration }}",
            "One Python stage takes more than half of the latency objective on its own.",
        ),
        Alert(
            "PipelineConfidenceDrift",
            TICKET,
            "30m",
            """
            abs(pipeline:top1_confidence:mean1h - pipeline:top1_confidence:mean1d) > 0.15
            and pipeline:requests:rate1h * 3600 > 100
            """,
            '{{ $labels.pipeline }}: mean confidence moved by {{ $value | printf "%.2f" }}',
            "The last hour's images or the model differ from the last day's: a wrong crop, wrong "
            "colours, wrong weights, or another kind of picture.",
        ),
        Alert(
            "PipelineBuildsDiffer",
            TICKET,
            "15m",
            f"""
            count by (job, pipeline) (
              count by (job, pipeline, git, config, weights, onnx_sha256, recipe) (
                pipeline_build_info{{{JOB}}} > 0
              )
            ) > 1
            """,
            "{{ $labels.pipeline }}: {{ $value }} different builds are serving",
            "A release stopped half-way, or replicas were not released together.",
        ),
        Alert(
            "PipelineReleaseFailed",
            TICKET,
            "0m",
            "pipeline_release_success == 0",
            "{{ $labels.pipeline }}: the last release failed",
            "The version before it keeps serving. Needs the node-exporter target with its "
            "textfile collector.",
        ),
        Alert(
            "PipelineSharedMemoryAlmostFull",
            TICKET,
            "5m",
            f"""
            max by (job, instance) (
              pipeline_shm_used_bytes{{{JOB}}} / pipeline_shm_size_bytes{{{JOB}}}
            ) > 0.85
            """,
            "{{ $labels.instance }}: {{ $value | humanizePercentage }} of /dev/shm in use",
            "Tensors travel through shared memory; when it is full, requests fail. It never "
            "shrinks while the server runs.",
        ),
        Alert(
            "PipelineMetricsLost",
            TICKET,
            "0m",
            f"""
            sum by (job, pipeline, stage) (
              increase(pipeline_metrics_lost_total{{{JOB}}}[15m])
            ) > 0
            """,
            "{{ $labels.pipeline }}: {{ $labels.stage }} dropped observations",
            "Its queue was full or a value was not a number: the other figures read too low.",
        ),
    ),
)

MONITORING = Group(
    "monitoring",
    (
        Alert(
            "Watchdog",
            "none",
            "0m",
            "vector(1)",
            "This alert always fires",
            "Route it to a dead man's switch: when it stops, alerting is broken.",
        ),
        Alert(
            "ExporterDown",
            TICKET,
            "5m",
            'up{job!="triton"} == 0',
            "{{ $labels.job }} at {{ $labels.instance }} cannot be scraped",
            "Alerts that need this target are blind.",
        ),
        Alert(
            "PrometheusConfigReloadFailed",
            TICKET,
            "5m",
            "prometheus_config_last_reload_successful == 0",
            "{{ $labels.instance }}: Prometheus runs on its old configuration",
            "The last reload was refused: a rule or configuration file is wrong.",
        ),
        Alert(
            "PrometheusRuleFailures",
            TICKET,
            "5m",
            """
            sum by (job, instance, rule_group) (
              increase(prometheus_rule_evaluation_failures_total[5m])
            ) > 0
            """,
            "{{ $labels.instance }}: rules of {{ $labels.rule_group }} fail",
            "Alerts of that group cannot fire.",
        ),
        Alert(
            "PrometheusNotificationsFailing",
            TICKET,
            "5m",
            """
            sum by (job, instance, alertmanager) (
              rate(prometheus_notifications_errors_total[5m])
            ) > 0
            """,
            "{{ $labels.instance }} cannot reach {{ $labels.alertmanager }}",
            "Alerts fire and nobody is told.",
        ),
    ),
)
