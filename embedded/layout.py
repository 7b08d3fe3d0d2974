"""Where the wheel keeps its parts, and the backend directory assembled from them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from embedded.errors import PreflightError

BACKENDS = Path(__file__).resolve().parent / "backends"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
INSTALL_HINT = "pip install -e '.[embedded]'"


def wheel_folder() -> Path:
    """Return the folder of the nvidia-pytriton wheel that holds bin/, backends/ and stubs."""
    spec = importlib.util.find_spec("pytriton")
    folder = Path(spec.origin).parent / "tritonserver" if spec and spec.origin else None
    if folder is None or not (folder / "bin" / "tritonserver").is_file():
        raise PreflightError(f"tritonserver is not installed: {INSTALL_HINT}")
    return folder


def stub_file() -> Path:
    """Return the wheel's Python backend stub for this Python."""
    stub = wheel_folder() / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub"
    if not stub.is_file():
        raise PreflightError(f"the wheel has no Python backend stub for Python {PYTHON_VERSION}")
    return stub


def libpython_folder() -> Path:
    """Return the folder of this Python's shared library, which the stub links to."""
    name = f"libpython{PYTHON_VERSION}.so.1.0"
    config = sysconfig.get_config_vars()
    library_folder = Path(config.get("LIBDIR") or "")
    candidates = [
        library_folder,
        library_folder / (config.get("MULTIARCH") or ""),
        Path(sys.base_prefix) / "lib",
    ]
    for folder in candidates:
        if (folder / name).is_file():
            return folder
    for line in _ldconfig_lines():
        if line.startswith(name) and "=>" in line:
            return Path(line.rpartition("=> ")[2]).parent
    raise PreflightError(
        f"{name} not found (searched {library_folder} and ldconfig): install libpython"
        f"{PYTHON_VERSION}, or use a Python built with --enable-shared"
    )


def assemble_backends(target: Path) -> None:
    """Fill `target` with the wheel's Python backend, this Python's stub and our backends."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(wheel_folder() / "backends" / "python", target / "python", ignore=ignore)
    shutil.copy(stub_file(), target / "python")
    # Copies, not links: the stub writes __pycache__ beside the modules it imports.
    for backend in BACKENDS.iterdir():
        if (backend / "model.py").is_file():
            shutil.copytree(backend, target / backend.name, ignore=ignore)


def server_environment(config_name: str) -> dict[str, str]:
    """Return the environment in which server and stubs find this Python and their libraries.

    MODEL_CONFIG tells the models what runs, for pipeline_build_info.
    """
    environment = {**os.environ, "MODEL_CONFIG": config_name}
    # A copied stub lost the relative path to its libraries; libpython must be this Python's.
    libraries = [libpython_folder(), wheel_folder().parents[1] / "nvidia_pytriton.libs"]
    environment["LD_LIBRARY_PATH"] = _path_list(libraries, environment.get("LD_LIBRARY_PATH"))
    # The stub takes its prefix, and so its site-packages, from the first python on PATH.
    environment["PATH"] = _path_list([Path(sys.executable).parent], environment.get("PATH"))
    # Each of glibc's arenas (8 per core) keeps its largest flood for ever: a soak with 192 clients
    # ended at 1.6 GB instead of 1.1 GB, and no request was faster for it.
    environment.setdefault("MALLOC_ARENA_MAX", "2")
    # Everything of embedded mode runs on the CPU, also where a GPU is present.
    environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def _path_list(folders: list[Path], rest: str | None) -> str:
    return os.pathsep.join([*map(str, folders), *([rest] if rest else [])])


def _ldconfig_lines() -> list[str]:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/sbin", "/usr/sbin"])
    ldconfig = shutil.which("ldconfig", path=path)
    if ldconfig is None:
        return []
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False)
    return [line.strip() for line in listed.stdout.splitlines()]
