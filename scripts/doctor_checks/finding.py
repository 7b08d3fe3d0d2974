"""The result of a check: what was seen and, where something is wrong, what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum

from doctor_checks.project import Project


class Status(str, Enum):
    """``problem`` makes the doctor exit with 1; ``warning`` and ``not applicable`` do not."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Finding:
    """One line of the report; ``fix`` is empty where there is nothing to do."""

    check: str
    status: Status
    detail: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """Strings by name; status as people read it."""
        return {**asdict(self), "status": self.status.value}


@dataclass(frozen=True)
class Check:
    """A named look at the project; ``look`` returns findings, none meaning all is well."""

    name: str
    look: Callable[[Project], list[Finding]]
    all_well: str

    def run(self, project: Project) -> list[Finding]:
        """The findings, or one saying that all is well."""
        return self.look(project) or [Finding(self.name, Status.OK, self.all_well)]


def problem(check: str, cause: str, fix: str) -> Finding:
    """Something that does not work, with cause and fix."""
    return Finding(check, Status.PROBLEM, cause, fix)


def warning(check: str, cause: str, fix: str) -> Finding:
    """Something that works but should be known."""
    return Finding(check, Status.WARNING, cause, fix)


def passed(check: str, detail: str) -> Finding:
    """Something worth saying that is as it should be."""
    return Finding(check, Status.OK, detail)


def not_applicable(check: str, reason: str, hint: str = "") -> Finding:
    """A check that cannot be made here, and why."""
    return Finding(check, Status.NOT_APPLICABLE, reason, hint)
