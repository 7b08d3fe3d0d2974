"""Ensembles: every tensor of every step has one producer that agrees with it in type and dims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from doctor_checks.finding import Finding, problem
from doctor_checks.model_configs import ConfigSet, read_configs, type_name
from doctor_checks.project import Project

CHECK = "ensemble wiring"

# (what is wrong, what to do)
Fault = tuple[str, str]
Produced = dict[str, tuple[Any, str]]


def check_wiring(project: Project) -> list[Finding]:
    """Faults of every ensemble's scheduling against the models that it names."""
    configs = read_configs(project)
    ensembles = [f for f in configs.files if not f.variant and f.config.platform == "ensemble"]
    return [
        problem(CHECK, f"{ensemble.model}: {cause}", fix)
        for ensemble in ensembles
        for cause, fix in _faults(configs, ensemble.config)
    ]


def _faults(configs: ConfigSet, ensemble: Any) -> Iterator[Fault]:
    produced: Produced = {tensor.name: (tensor, "the request") for tensor in ensemble.input}
    steps = [(step, configs.base(step.model_name)) for step in ensemble.ensemble_scheduling.step]
    for step, model in steps:
        if model is None:
            if step.model_name not in configs.unreadable:
                yield (
                    f"step {step.model_name} is no model of this repository",
                    "correct model_name, or add the model",
                )
            continue
        yield from _step_faults(ensemble, step, model)
        outputs = {tensor.name: tensor for tensor in model.output}
        for name, ensemble_name in step.output_map.items():
            if ensemble_name in produced:
                yield (
                    f"{ensemble_name} comes from {produced[ensemble_name][1]} and from "
                    f"{step.model_name}",
                    "give each tensor one producer",
                )
            elif name in outputs:
                produced[ensemble_name] = (outputs[name], step.model_name)
    if any(model is None for _, model in steps):
        return
    yield from _consumer_faults(ensemble, steps, produced)


def _step_faults(ensemble: Any, step: Any, model: Any) -> Iterator[Fault]:
    for direction, mapped, declared in (
        ("input", step.input_map, model.input),
        ("output", step.output_map, model.output),
    ):
        names = {tensor.name for tensor in declared}
        for name in sorted(set(mapped) - names):
            yield (
                f"step {step.model_name} maps {direction} {name}, which that model lacks",
                f"it has {', '.join(sorted(names))}: correct the key of {direction}_map",
            )
    required = {tensor.name for tensor in model.input if not tensor.optional}
    for name in sorted(required - set(step.input_map)):
        yield (
            f"step {step.model_name} gets no {name}",
            "add it to that step's input_map",
        )
    if ensemble.max_batch_size > model.max_batch_size:
        yield (
            f"max_batch_size {ensemble.max_batch_size} is above {step.model_name}'s "
            f"{model.max_batch_size}",
            "Triton refuses this: make them equal",
        )


def _consumer_faults(
    ensemble: Any, steps: list[tuple[Any, Any]], produced: Produced
) -> Iterator[Fault]:
    for step, model in steps:
        inputs = {tensor.name: tensor for tensor in model.input}
        for name, ensemble_name in step.input_map.items():
            if ensemble_name not in produced:
                yield (
                    f"{step.model_name} wants {ensemble_name} for {name}, and nothing produces it",
                    "correct the value of input_map, or map an earlier step's output to it",
                )
            elif name in inputs:
                producer, origin = produced[ensemble_name]
                yield from _mismatch(producer, origin, inputs[name], step.model_name)
    for tensor in ensemble.output:
        if tensor.name not in produced:
            yield (
                f"output {tensor.name} is produced by no step",
                "map a step's output to it in output_map",
            )
        else:
            producer, origin = produced[tensor.name]
            yield from _mismatch(producer, origin, tensor, "the answer")


def _mismatch(producer: Any, origin: str, consumer: Any, destination: str) -> Iterator[Fault]:
    edge = f"{producer.name} of {origin} and {consumer.name} of {destination}"
    if producer.data_type != consumer.data_type:
        yield (
            f"{edge} differ in type: {type_name(producer.data_type)} and "
            f"{type_name(consumer.data_type)}",
            "give both one data_type",
        )
    here, there = list(producer.dims), list(consumer.dims)
    fits = len(here) == len(there) and all(a == b or -1 in (a, b) for a, b in zip(here, there))
    if not fits:
        yield (f"{edge} differ in dims: {here} and {there}", "give both the same dims")
