"""Shorthand for tests that replay in this process."""

from dropgate.replay.build import BASELINE, CANDIDATE
from dropgate.replay.drive import replay_workload
from dropgate.replay.laws import judge_workload
from dropgate.replay.layout import load_replay
from dropgate.replay.run import replay_path


def scenario(name):
    return load_replay(replay_path(name))


def workload(name, which):
    return next(one for one in scenario(name).workloads if one.name == which)


def both(layout, work):
    """What both variants of one workload saw."""
    return tuple(replay_workload(layout, work, variant) for variant in (BASELINE, CANDIDATE))


def failures(layout, work):
    """The checks that fail on one workload, by name; a reference is not among them."""
    checks = judge_workload(layout, work, *both(layout, work), None)
    return {one.name.rpartition(".")[2] for one in checks if one.verdict == "fail"}
