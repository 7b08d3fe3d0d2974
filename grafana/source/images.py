"""What the images look like and how they are answered: the lower half of the stages page."""

from __future__ import annotations

from grafana.source.fields import IMAGES_PER_S, Query, Thresholds, high_is_bad
from grafana.source.panel_types import Heatmap, TimeSeries
from grafana.source.panels import Panel
from grafana.source.promql import PIPELINE, buckets, mean, quantiles, rate_by, ratio_of_rates
from grafana.source.shared import CODE_COLOURS, OUTCOME_COLOURS, QUANTILE_COLOURS, STAGE_COLOURS


def image_panels() -> tuple[Panel, ...]:
    return (
        TimeSeries(
            title="Images by outcome",
            description="Images, not requests: one request may hold up to max_batch_size of them.",
            unit=IMAGES_PER_S,
            queries=(
                Query(
                    rate_by("outcome", f"pipeline_images_total{{{PIPELINE}}}"),
                    "{{outcome}}",
                ),
            ),
            colours=OUTCOME_COLOURS,
            minimum=0,
            stacked=True,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Image errors, by stage and code",
            description="Where an image was given up, and why.",
            unit=IMAGES_PER_S,
            queries=(
                Query(
                    rate_by("stage, code", f"pipeline_errors_total{{{PIPELINE}}}") + " > 0",
                    "{{stage}} {{code}}",
                ),
            ),
            colours={f"/.* {code}/": colour for code, colour in CODE_COLOURS.items()},
            minimum=0,
            no_value="No errors",
            names_only=True,
            bars=True,
            stacked=True,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Images per request",
            description="Mean, and 95th percentile by bucket (bounds 1.5 to 32.5). Sampled.",
            unit="short",
            queries=(
                Query(mean("pipeline_images_per_request", PIPELINE, "pipeline"), "mean"),
                *quantiles("pipeline_images_per_request", PIPELINE, 0.95),
            ),
            colours=QUANTILE_COLOURS,
            decimals=1,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Input size",
            description="Bytes of one image as received (base64 or raw). Sampled.",
            unit="bytes",
            queries=quantiles("pipeline_input_bytes", PIPELINE, 0.5, 0.95),
            colours=QUANTILE_COLOURS,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Image size",
            description="Megapixels as the image's header says. Large: slow to decode. Sampled.",
            unit="suffix: MP",
            queries=quantiles("pipeline_input_megapixels", PIPELINE, 0.5, 0.95),
            colours=QUANTILE_COLOURS,
            decimals=2,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        Heatmap(
            title="Confidence of the best class",
            description=(
                "Share of images per confidence band. A mass that sinks over days means that the "
                "images no longer look like those the model knows. Sampled."
            ),
            unit="percentunit",
            queries=(Query(buckets("pipeline_top1_confidence", PIPELINE), "{{le}}"),),
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Images without a prediction",
            description="Share of images whose best class stayed under the confidence threshold.",
            unit="percentunit",
            queries=(
                Query(
                    ratio_of_rates(
                        f"pipeline_results_below_threshold_total{{{PIPELINE}}}",
                        f'pipeline_images_total{{{PIPELINE},outcome="ok"}}',
                        "pipeline",
                    ),
                    "under the threshold",
                ),
            ),
            thresholds=high_is_bad(0.2, 0.5),
            axis_reaches=0.1,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Confidence, hour against day",
            description="Mean confidence of the best class. Hour under day: the input drifts.",
            unit="percentunit",
            queries=(
                Query(f"pipeline:top1_confidence:mean1h{{{PIPELINE}}}", "last hour"),
                Query(f"pipeline:top1_confidence:mean1d{{{PIPELINE}}}", "last day"),
            ),
            colours={"last hour": "blue", "last day": "purple"},
            maximum=1,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
        TimeSeries(
            title="Observations lost",
            description="Measurements dropped because a stage's queue was full: other panels lie.",
            unit=IMAGES_PER_S,
            queries=(
                Query(
                    rate_by("stage", f"pipeline_metrics_lost_total{{{PIPELINE}}}"),
                    "{{stage}}",
                ),
            ),
            thresholds=Thresholds("green", ((1e-9, "red"),)),
            colours=STAGE_COLOURS,
            axis_reaches=1,
            minimum=0,
            width=8,
            always_has_data=True,
        ),
    )
