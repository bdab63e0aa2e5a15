"""The Buildkite pipeline: which lanes a change needs, what they run, and the verdict over all of them.

    touched files -> choice -> steps (generate) ... lanes, each leaving verdicts ... -> verdict -> status

`python -m buildkite.pipeline generate | lane NAME | master-address | verdict`; `buildkite/run.sh` calls these.
"""
