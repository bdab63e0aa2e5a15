"""Which jobs `/ci retry` may run again: what was invalid or lost, never what failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from buildkite.ci_command.models import Job

INVALID_EXIT = 75  # the harness's own exit code for a run that was not worth judging
LOST_AGENT_EXIT = -1
UNFINISHED = frozenset({"timed_out", "expired"})
# https://buildkite.com/docs/pipelines/configure/retry: reasons that speak of the agent, not of the command.
LOST_AGENT_REASONS = frozenset({"agent_stop", "agent_refused", "agent_incompatible", "stack_error"})
DONE_WELL = frozenset({"passed", "finished"})
NEVER_RAN = frozenset({"skipped", "broken", "not_run", "waiting_failed", "blocked_failed", "unblocked_failed"})


@dataclass(frozen=True)
class Sorted:
    """A finished build's jobs: those that may run again, in order, and those that stay failed."""

    again: tuple[Job, ...]
    left: tuple[Job, ...]


def may_retry(job: Job) -> bool:
    """Say whether the job says nothing about the commit: invalid, out of time, or its agent lost."""
    if job.state in UNFINISHED or job.exit_status in {INVALID_EXIT, LOST_AGENT_EXIT}:
        return True
    return job.signal_reason in LOST_AGENT_REASONS


def sort(jobs: Iterable[Job], verdict_step: str) -> Sorted:
    """Sort the latest run of each job; the step that judges the others goes last, when another goes again.

    The verdict step fails because of what it judged, so its own failure is neither noise nor a finding.
    """
    current = [job for job in jobs if job.type == "script" and not job.retried]
    lanes = [job for job in current if job.step_key != verdict_step and not _well(job)]
    again = [job for job in lanes if may_retry(job)]
    verdict = [job for job in current if job.step_key == verdict_step and not _well(job)]
    if again or not lanes:
        again += [job for job in verdict if again or may_retry(job)]
    return Sorted(tuple(again), tuple(job for job in lanes if not may_retry(job)))


def outcome(job: Job) -> str:
    """Say how the job ended."""
    if job.exit_status is not None:
        return f"ended with exit {job.exit_status}"
    return f"is {job.state or 'in an unknown state'}".replace("_", " ")


def _well(job: Job) -> bool:
    return job.state in NEVER_RAN or (job.state in DONE_WELL and job.exit_status in {0, None})
