"""Print pyproject.toml's pinned dependencies, and those of the extras named, one per line.

So that images and virtual environments install one list of versions:
    pip install -r <(python docker/requirements.py pyproject.toml export)
"""

import re
import sys

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]


def requirements(pyproject_path, extras):
    """Return the requirement lines (list of str) of the project and of its `extras`.

    An extra may name others of the project, as in "resnet50-triton[cli,onnx]".
    """
    with open(pyproject_path, "rb") as file:
        project = tomllib.load(file)["project"]
    reference = re.compile(re.escape(project["name"]) + r"\[(.+)\]")

    def expand(lines):
        for line in lines:
            named = reference.fullmatch(line)
            if named is None:
                yield line
            else:
                for extra in named[1].split(","):
                    yield from expand(project["optional-dependencies"][extra.strip()])

    asked = [f"{project['name']}[{extra}]" for extra in extras]
    return list(dict.fromkeys(expand(project["dependencies"] + asked)))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1], sys.argv[2:])))
