"""The house rules: who imports whom, README and reality, every command explains itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import CATALOGUE

PROJECT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(PROJECT.glob("scripts/*.py"))
README = (PROJECT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (PROJECT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE)

# Allowed beyond the standard library and common/ itself.
LAYERS = {
    "common/preprocess": {"numpy", "PIL", "cykooz_resizer", "simplejpeg", "pybase64"},
    "common/postprocess": {"numpy"},
    "common": {"numpy", "triton_python_backend_utils"},
    "model_repository": set(),
}
# What pre- and postprocessing must not know of.
OUTER_MODULES = ("common.serving", "common.triton", "common.metrics", "common.recorder")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", sorted(PROJECT.glob("common/**/*.py")), ids=str)
def test_common_imports_only_what_its_layer_may(path: Path) -> None:
    folder = str(path.relative_to(PROJECT).parent)
    for name in imported(path):
        top = name.partition(".")[0]
        assert top == "common" or top in sys.stdlib_module_names | LAYERS[folder], name
        if folder != "common":
            assert name not in (
                "common.serving",
                "common.triton",
                "common.metrics",
                "common.recorder",
            )


def test_only_one_module_touches_triton_s_python_api() -> None:
    users = {
        path.relative_to(PROJECT).as_posix()
        for path in PROJECT.glob("common/**/*.py")
        if "triton_python_backend_utils" in imported(path)
    }
    assert users == {"common/triton.py"}


@pytest.mark.parametrize(
    "path", sorted(PROJECT.glob("model_repository/resnet50_*/1/model.py")), ids=str
)
def test_models_are_thin_adapters_over_common(path: Path) -> None:
    assert imported(path) == {"common.serving"}
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40


def test_nothing_but_tests_imports_a_model_or_a_script() -> None:
    scripts = {path.stem for path in SCRIPTS}
    for folder in ("common", "embedded"):
        for path in PROJECT.glob(f"{folder}/**/*.py"):
            assert not {name.partition(".")[0] for name in imported(path)} & (scripts | {"scripts"})


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_explains_itself_with_an_example(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "example" in done.stdout.lower()


@pytest.mark.parametrize("target", TARGETS)
def test_every_make_target_has_its_line_in_the_help(target: str) -> None:
    printed = subprocess.run(
        ["make", "--no-print-directory"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert re.search(rf"^  {target} +\S", printed.stdout, re.MULTILINE)


def test_the_scripts_that_make_calls_exist() -> None:
    for script in re.findall(r"scripts/\S+\.py", MAKEFILE):
        assert (PROJECT / script).is_file(), script


def test_the_readme_s_tree_is_the_repository_s() -> None:
    block = re.search(r"```\n\.\n(.*?)```", README, re.DOTALL)
    assert block, "README has no tree"
    folders: list[str] = []
    named = set()
    for line in block[1].splitlines():
        match = re.match(r"^((?:│   |    )*)[├└]── (\S+)", line)
        assert match, line
        depth = len(match[1]) // 4
        folders = [*folders[:depth], match[2].rstrip("/")]
        path = PROJECT.joinpath(*folders)
        assert path.exists(), f"README names {path.relative_to(PROJECT)}"
        named.add(folders[0])
    listed = subprocess.run(
        ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    tracked = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    assert tracked - named <= {".gitignore", ".dockerignore"}, "README's tree misses some"


def test_the_readme_s_error_table_is_the_catalogue() -> None:
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \| (.+?) \|$", README, re.MULTILINE)
    assert rows == [(error.code, error.meaning) for error in CATALOGUE]


def test_what_the_readme_links_to_exists() -> None:
    for document in [PROJECT / "README.md", *PROJECT.glob("docs/*.md")]:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_make_command_in_the_documents_exists() -> None:
    for document in [PROJECT / "README.md", *PROJECT.glob("docs/*.md")]:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"`(?:[A-Z_]+=\S+ )*make ([a-z][a-z-]+)", text):
            assert target in TARGETS, f"{document.name}: make {target}"
