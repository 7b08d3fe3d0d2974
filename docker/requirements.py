"""Print pyproject.toml's pinned dependencies, and those of the extras named, one per line.

So that images and virtual environments install one list of versions:
    pip install -r <(python docker/requirements.py pyproject.toml export)
"""

import sys

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]


def requirements(pyproject_path, extras):
    """Return the requirement lines (list of str) of the project and of its `extras`."""
    with open(pyproject_path, "rb") as file:
        project = tomllib.load(file)["project"]
    optional = project["optional-dependencies"]
    return project["dependencies"] + [line for extra in extras for line in optional[extra]]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1], sys.argv[2:])))
