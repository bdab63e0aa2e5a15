#!/usr/bin/env bash
# Run one part of the pipeline, in CI or by hand:
#
#   buildkite/run.sh generate | unit | replay | cpu | gpu | two-node | verdict
#
# A lane ends with 0 pass, 1 fail or 75 invalid, and leaves everything under ci-out/LANE, which is uploaded however the
# lane ends. By hand, two-node needs NODE_RANK and MASTER_ADDR. The engine under test:
#
#   DROPGATE_ENGINE_PYTHON=/path/to/python    an interpreter that has it, or
#   DROPGATE_ENGINE_WHEEL=URL-or-path         a wheel, which is installed first; {commit} stands for the next one
#   DROPGATE_ENGINE_COMMIT=SHA                its commit; `head` for DROPGATE_HEAD_SHA. Another one is invalid
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly invalid=75 stopped=143
readonly grace_s=${DROPGATE_STOP_S:-5} # buildkite-agent kills 9 s after its SIGTERM, unless told otherwise
lane=${1:?"which lane? One of buildkite/lanes.yml, or generate, or verdict"}
out=ci-out/$lane${BUILDKITE_PARALLEL_JOB:+-$BUILDKITE_PARALLEL_JOB}
child=

upload() {
    trap '' TERM INT HUP # nothing may interrupt this but the agent's SIGKILL
    if command -v buildkite-agent >/dev/null && [[ -d $out ]]; then
        buildkite-agent artifact upload "$out/**/*" || echo "dropgate-ci: the artifacts of $lane were not uploaded" >&2
    fi
}

# Ask the lane to end, upload what there is when it has ended or the grace is over, and leave nothing running.
stop() {
    trap '' TERM INT HUP
    child=${child:-$(jobs -p)} # a signal may come between a command's start and the note of its id
    if [[ -n $child ]]; then
        kill -TERM -- "-$child" 2>/dev/null || true
        for ((tenths = 0; tenths < grace_s * 10; tenths++)); do
            kill -0 -- "-$child" 2>/dev/null || break
            sleep 0.1
        done
    fi
    upload
    [[ -z $child ]] || kill -KILL -- "-$child" 2>/dev/null || true
    trap - EXIT
    exit "$stopped"
}

trap upload EXIT
trap stop TERM INT HUP

# Run a command in a process group of its own, so that it gets one signal, from `stop`, and not the agent's as well.
run() {
    set -m
    "$@" </dev/null &
    child=$!
    set +m
    local code=0
    wait "$child" || code=$?
    child=
    return "$code"
}

# What cannot be set up says nothing about the engine.
setup() { run make "$1" || exit "$invalid"; }

engine() {
    [[ ${DROPGATE_ENGINE_COMMIT:-} != head ]] || export DROPGATE_ENGINE_COMMIT=${DROPGATE_HEAD_SHA:?}
    [[ -n ${DROPGATE_ENGINE_WHEEL:-} ]] || return 0
    local wheel=${DROPGATE_ENGINE_WHEEL//'{commit}'/${DROPGATE_ENGINE_COMMIT:-}}
    run .venv/bin/uv venv --quiet --clear --python .venv/bin/python .venv-engine || exit "$invalid"
    run .venv/bin/uv pip install --quiet --python .venv-engine/bin/python "$wheel" || exit "$invalid"
    export DROPGATE_ENGINE_PYTHON=$PWD/.venv-engine/bin/python
}

nodes() {
    [[ -n ${BUILDKITE_PARALLEL_JOB:-} ]] || return 0
    export NODE_RANK=$BUILDKITE_PARALLEL_JOB
    run .venv/bin/python -m buildkite.pipeline master-address >"$out/master-address" || exit "$invalid"
    MASTER_ADDR=$(<"$out/master-address")
    export MASTER_ADDR
}

rm -rf "$out"
mkdir -p "$out"
case $lane in
    generate)
        setup ci
        run .venv-ci/bin/python -m buildkite.pipeline generate
        ;;
    verdict)
        setup ci
        run .venv-ci/bin/python -m buildkite.pipeline verdict --out "$out"
        ;;
    *)
        setup setup
        engine
        [[ $lane != two-node ]] || nodes
        run .venv/bin/python -m buildkite.pipeline lane "$lane" --out "$out"
        ;;
esac
