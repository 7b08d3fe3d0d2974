"""PromQL that the pages share: label matchers, and functions that write expressions."""

from __future__ import annotations

from grafana.source.fields import Query

# Label matchers. Model names begin with the pipeline's name, the ensemble is the whole of it.
JOB = 'job=~"$job"'
PIPELINE = f'{JOB},pipeline="$pipeline"'
MODELS = f'{JOB},model=~"${{pipeline}}_.+"'
ENSEMBLE = f'{JOB},model="${{pipeline}}_ensemble"'
STEPS = f'{JOB},model=~"${{pipeline}}_(preprocess|inference|postprocess)"'
PYTHON = f'{JOB},model=~"${{pipeline}}_(preprocess|postprocess)"'
INFERENCE = f'{JOB},model="${{pipeline}}_inference"'

END_TO_END = "pipeline_request_duration_seconds"
STAGE_TIME = "pipeline_stage_duration_seconds"


def rate_by(by: str, counter: str) -> str:
    """PromQL for the events per second of `counter{…}`, summed by the labels `by`."""
    return f"sum by ({by}) (rate({counter}[$__rate_interval]))"


def buckets(histogram: str, selector: str) -> str:
    """PromQL for a heatmap: new observations per bucket."""
    return f"sum by (le) (increase({histogram}_bucket{{{selector}}}[$__rate_interval]))"


def by_stage(expr: str) -> str:
    """PromQL that adds the label `stage`, the last word of `model`: inference, ensemble."""
    return f'label_replace({expr}, "stage", "$1", "model", ".+_(.+)")'


def quantile(share: float, histogram: str, selector: str, by: str = "") -> str:
    """PromQL for a quantile (0..1) of a histogram, one series per value of the label `by`."""
    labels = f"{by}, le" if by else "le"
    rate = f"rate({histogram}_bucket{{{selector}}}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by ({labels}) ({rate}))"


def quantiles(histogram: str, selector: str, *shares: float) -> tuple[Query, ...]:
    """One query per share, named p50, p95 and so on."""
    return tuple(
        Query(quantile(share, histogram, selector), f"p{share * 100:.0f}") for share in shares
    )


def ratio_of_rates(part: str, whole: str, by: str) -> str:
    """PromQL for rate(part) / rate(whole) by label; no value where nothing happened."""
    over, under = (f"sum by ({by}) (rate({each}[$__rate_interval]))" for each in (part, whole))
    return f"{over} / ({under} > 0)"


def mean(histogram: str, selector: str, by: str) -> str:
    """PromQL for the mean of a histogram's observations by label."""
    part, whole = (f"{histogram}_{each}{{{selector}}}" for each in ("sum", "count"))
    return ratio_of_rates(part, whole, by)


def triton_seconds(part: str, selector: str) -> str:
    """PromQL: mean seconds per request of one of Triton's microsecond counters, by model."""
    success = f"nv_inference_request_success{{{selector}}}"
    spent = f"nv_inference_{part}_duration_us{{{selector}}}"
    return f"{ratio_of_rates(spent, success, 'model')} / 1e6"
