"""The list of checks, in the order of the report."""

from __future__ import annotations

from doctor_checks import (
    artefacts,
    config_files,
    embedded_mode,
    engines,
    files,
    gpu,
    machine,
    model_configs,
    releases,
    stages,
    wiring,
)
from doctor_checks.finding import Check

CONFIGURATION = (
    Check(releases.CHECK_RELEASE, releases.check_release, "in the table"),
    Check(model_configs.CHECK_PARSE, model_configs.check_parse, "Triton's schema reads every file"),
    Check(config_files.CHECK_FILE, config_files.check_files, "names, tensors, batch sizes"),
    Check(
        config_files.CHECK_ALTERNATES,
        config_files.check_alternates,
        "same inputs, outputs and batch in every configuration",
    ),
    Check(wiring.CHECK, wiring.check_wiring, "every tensor has one fitting producer"),
    Check(stages.CHECK_PARAMETERS, stages.check_parameters, "every Python stage would load"),
    Check(stages.CHECK_RECIPE, stages.check_recipe, "no contradiction"),
    Check(releases.CHECK_GATES, releases.check_gates, "by NGC_RELEASE and by the embedded server"),
    Check(artefacts.CHECK_ONNX, artefacts.check_onnx, "fits manifest and configuration"),
)

HOST = (
    Check(machine.CHECK_DOCKER, machine.check_docker, "answers"),
    Check(gpu.CHECK_GPU, gpu.check_gpu, "fits NGC_RELEASE"),
    Check(gpu.CHECK_TOOLKIT, gpu.check_toolkit, "present"),
    Check(machine.CHECK_PORTS, machine.check_ports, "free, or held by this stack"),
    Check(machine.CHECK_DISK, machine.check_disk, "enough room"),
    Check(machine.CHECK_SHM, machine.check_shm, "enough room"),
    Check(files.CHECK_SECRETS, files.check_secrets, "present and readable in the containers"),
    Check(files.CHECK_PERMISSIONS, files.check_permissions, "readable, version folders writable"),
    Check(embedded_mode.CHECK, embedded_mode.check_embedded, "this Python can serve"),
    Check(stages.CHECK_MEANING, stages.check_meaning, "trained"),
    Check(engines.CHECK_ENGINE, engines.check_engine, "fits this host"),
)
