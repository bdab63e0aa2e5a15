"""What is said on the pull request: pure text, foreign words only inside code spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from buildkite.ci_command.builds import lanes_of, state_of
from buildkite.ci_command.commands import COMMANDS, Command, Lanes, spelling
from buildkite.ci_command.models import Build, Job
from buildkite.ci_command.redact import code_span
from buildkite.ci_command.retries import outcome

PURPOSE = {
    "run": "build the current head; the touched files choose the lanes",
    "run gpu": "build the GPU lanes only; sets the status `dropgate/gpu`, not the required one",
    "run replay": "build the replay lane only; sets the status `dropgate/replay`, not the required one",
    "retry": "run again what was invalid in the head's latest build; a failure is never run again",
    "cancel": "cancel the active builds of the head",
}


@dataclass(frozen=True)
class Reply:
    """An answer and the reaction that sums it up."""

    text: str
    good: bool

    @property
    def reaction(self) -> str:
        """The reaction's name in GitHub's API."""
        return "rocket" if self.good else "confused"


def short(sha: str) -> str:
    """Return the twelve characters a commit is called by."""
    return sha[:12]


def link(build: Build) -> str:
    """Return the build's number, leading to the build."""
    return f"[#{build.number}]({build.web_url})"


def triggered(build: Build, head: str, prefix: str) -> Reply:
    """Say that a build was started; `head` is where the pull request's head is by now."""
    text = f"✅ Triggered Buildkite CI {link(build)} for commit {short(build.commit)}."
    if lanes_of(build) is not Lanes.AUTO:
        text += f" Lanes: {lanes_of(build).value} only, so the required status stays as it is."
    if head != build.commit:
        text += (
            f"\n\n⚠️ The head moved to {short(head)} while {short(build.commit)} was being checked. "
            f"The build covers {short(build.commit)} only; comment `{prefix} run` again for the new head."
        )
    return Reply(text, good=True)


def already_active(build: Build) -> Reply:
    """Say that the same commit and lanes are being built; no second build was started."""
    return Reply(
        f"✅ Buildkite CI {link(build)} is already {state_of(build)} for commit {short(build.commit)}; "
        "no second build was started.",
        good=True,
    )


def denied(command: Command, prefix: str, missing: Sequence[str]) -> Reply:
    """Refuse, with everything that is missing."""
    wants = "\n".join(f"- {item}" for item in missing)
    return Reply(f"⛔ `{spelling(command, prefix)}` was not carried out:\n{wants}", good=False)


def usage(prefix: str) -> Reply:
    """Say what the commands are, to a comment that began like one and was none."""
    rows = "\n".join(f"- `{prefix} {words}`: {PURPOSE[words]}" for words in COMMANDS)
    return Reply(f"❓ Not a command. A comment that is exactly one of these, and nothing else, is:\n{rows}", good=False)


def nothing_to_retry(prefix: str, reason: str) -> Reply:
    """Say that there is no build, or no job of it, that may be retried."""
    return Reply(f"⛔ Nothing was retried: {reason}. `{prefix} run` starts a new build.", good=False)


def refused_jobs(jobs: Iterable[Job]) -> str:
    """Say why these jobs are left alone."""
    return ", ".join(f"{job_name(job)} {outcome(job)}" for job in jobs)


def retried(build: Build, again: Sequence[Job], left: Sequence[Job]) -> Reply:
    """Say that some jobs run again; others failed, and a failure is a verdict."""
    names = ", ".join(job_name(job) for job in again)
    text = f"✅ Retried {names} in Buildkite CI {link(build)} for commit {short(build.commit)}."
    if left:
        text += f"\n\nNot retried, because a failure is a verdict: {refused_jobs(left)}."
    return Reply(text, good=True)


def canceled(done: Sequence[Build], over: Sequence[Build], head: str) -> Reply:
    """Say that the active builds of the head were canceled, except those that ended first."""
    if not done and not over:
        return Reply(f"⛔ No active build of commit {short(head)} to cancel.", good=False)
    parts = []
    if done:
        parts.append(f"✅ Canceled Buildkite CI {', '.join(link(build) for build in done)} for commit {short(head)}.")
    if over:
        parts.append(f"Ended before it could be canceled: {', '.join(link(build) for build in over)}.")
    return Reply(" ".join(parts), good=bool(done))


def failed(command: Command, prefix: str, reason: str) -> Reply:
    """Say that a service failed; nothing is known to have started."""
    return Reply(
        f"❌ `{spelling(command, prefix)}` failed: {code_span(reason, 300)}\n\n"
        "Comment again to try again; a build that did start is found, not started twice.",
        good=False,
    )


def job_name(job: Job) -> str:
    """Name a job in an answer; names come from the pull request's pipeline, so they are foreign text."""
    return code_span(job.step_key or job.name or job.id, 60)
