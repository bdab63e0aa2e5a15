"""What a build must deliver, fixed when its steps are chosen, so that a lane that vanished later is missed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from buildkite.pipeline import agent, files
from buildkite.pipeline.choice import Choice
from dropgate.errors import InputError

KEY = "dropgate-plan"
"""The build's meta-data that holds the plan."""
OUT = "ci-out"
BY_HAND = Path(OUT) / "plan.json"


class Plan(BaseModel):
    """Saved as meta-data by the generate step, read by the verdict step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    why: str
    head: str | None = None
    base: str | None = None
    needed: list[str] = []
    """Lanes that the change needs."""
    absent: list[str] = []
    """Those of them that this installation has no agents for."""
    reports: dict[str, list[str]] = {}
    """By lane that is run, the folders in which it must leave a verdict."""
    problem: str | None = None
    """Why no lane could be chosen; such a build is invalid."""

    @property
    def lanes(self) -> list[str]:
        """The lanes that are run."""
        return list(self.reports)


def make_plan(choice: Choice, environment: Mapping[str, str]) -> Plan:
    """Fix what the build must deliver."""
    known, queues = files.lanes().lanes, files.queues()
    if unknown := set(choice.lanes) - known.keys():
        raise InputError(f"lanes.yml does not know {', '.join(sorted(unknown))}")
    absent = [lane for lane in choice.lanes if any(queues[name] is None for name in queue_names(lane))]
    reports = {lane: folders(lane, list(known[lane].reports)) for lane in choice.lanes if lane not in absent}
    return Plan(
        why=choice.why,
        head=environment.get("DROPGATE_HEAD_SHA"),
        base=environment.get("DROPGATE_BASE_SHA"),
        needed=choice.lanes,
        absent=absent,
        reports=reports,
    )


def queue_names(lane: str) -> list[str]:
    """Return the names in queues.yml that a lane's steps use.

    Raises:
        InputError: a step names no queue that queues.yml has.

    """
    known = files.queues()
    names = [str(step.get("agents", {}).get("queue")) for step in files.steps(lane)]
    for name in names:
        if name not in known:
            raise InputError(f"steps/{lane}.yml: queue '{name}' is not in queues.yml")
    return names


def folders(lane: str, reports: list[str]) -> list[str]:
    """Name the folders of a lane's reports, those of each parallel job; as `run.sh` does."""
    step = next((step for step in files.steps(lane) if step.get("key") == lane), None)
    if step is None:
        raise InputError(f"steps/{lane}.yml: no step has the key '{lane}'")
    jobs = [f"-{rank}" for rank in range(step["parallelism"])] if "parallelism" in step else [""]
    return [f"{OUT}/{lane}{job}/{report}" for job in jobs for report in reports]


def save_plan(plan: Plan) -> None:
    """Keep the plan for the verdict: in the build's meta-data, or in a file where a person runs this by hand."""
    text = plan.model_dump_json(exclude_defaults=True)
    if agent.present():
        agent.set_meta_data(KEY, text)
    else:
        BY_HAND.parent.mkdir(exist_ok=True)
        BY_HAND.write_text(text, encoding="utf-8")


def read_plan() -> Plan | None:
    """Return the plan of this build, None when there is none or it cannot be read."""
    try:
        text = agent.meta_data(KEY) if agent.present() else BY_HAND.read_text(encoding="utf-8")
        return Plan.model_validate_json(text) if text else None
    except (OSError, ValueError, agent.AgentError):
        return None
