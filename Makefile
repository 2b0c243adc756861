# Each target sets up all that it needs. Expensive things live in a cache folder outside the checkout, keyed by their locks.
SHELL      := /bin/bash
.SHELLFLAGS := -euo pipefail -c
CACHE      := $(if $(TRAINSWEEP_CACHE),$(TRAINSWEEP_CACHE),$(HOME)/.cache/trainsweep)
LOCK_HASH  := $(shell sha256sum requirements/dev.txt | cut -c1-12)
PYTHON     ?= python3
VENV       := $(CACHE)/venv/dev-$(LOCK_HASH)
PY         := PYTHONPATH=operator:. $(VENV)/bin/python
BIN        := PYTHONPATH=operator:. $(VENV)/bin
CLUSTER    ?= devcluster
KEEP       ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## show what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  \1\t/' | expand -t 20

$(VENV)/.ready:
	@.ci/venv "$(PYTHON)" "$(VENV)" requirements/dev.txt
.PHONY: venv
venv: $(VENV)/.ready ## the Python environment of the locks

.PHONY: generate
generate: venv ## write the CRDs and the reference from the typed models
	$(PY) -m trainsweep.api.generate
	$(PY) -m trainsweep.cli.reference
	$(PY) .ci/manifests.py
	$(PY) .ci/failures.py

.PHONY: lint
lint: venv ## format, types, layers, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PY) -m trainsweep.api.generate --check
	$(PY) .ci/failures.py --check
	$(PY) -m trainsweep.cli.reference --check
	$(PY) .ci/packaging.py

.PHONY: format
format: venv ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lock
lock: venv ## compile the lock files anew
	.ci/lock

.PHONY: test-fast
test-fast: venv ## what needs no cluster, without the few slow files: under 90 s
	SEEDS=$(or $(SEEDS),100) $(PY) -m pytest tests/unit tests/simulation -q -n auto -m "not slow"

.PHONY: examples
examples: venv ## train and prove every example on this machine
	$(PY) -m pytest tests/examples -q -s --durations=0

.PHONY: bench-driver
bench-driver: venv ## the same sweeps on raw Ray and through trainjobs, interleaved
	$(PY) -m bench.driver.run $(BENCH)

.PHONY: bench-search
bench-search: venv ## search through our proposals against Optuna itself: equal values, seconds a proposal
	$(PY) -m bench.search

.PHONY: test-restore
test-restore: venv ## twelve kills of one sweep, restored each time; lost nodes, damaged and wrong uploads
	$(PY) -m tests.restore.run
	$(PY) -m pytest tests/restore -q --durations=0

.PHONY: simulate
simulate: venv ## ten thousand lives of a sweep among faults (SEEDS=n, SEED=k tells one, FROM=k)
	SEEDS="$(SEEDS)" SEED="$(SEED)" FROM="$(FROM)" $(PY) -m tests.simulation.run

.PHONY: mutants
mutants: venv ## faults put in on purpose: the fixed list, then random ones (SEEDS=n, PART=fixed|random, MINUTES=n a slice)
	SEEDS="$(SEEDS)" PART="$(PART)" MINUTES="$(MINUTES)" $(PY) -m tests.mutants.run

.PHONY: test
test: venv ## every layer, on a real Kubernetes
	$(PY) .ci/test.py

.PHONY: screenshots
screenshots: venv ## pictures of report.html for the docs, from a real run; TRAIN=1 trains it anew
	$(PY) .ci/screenshots.py $(if $(TRAIN),--train)

.PHONY: demo
demo: venv ## one real sweep on a real Kubernetes
	$(PY) -m devcluster.demo --cluster "$(CLUSTER)" $(if $(KEEP),--keep)

.PHONY: e2e-platform
e2e-platform: venv ## two teams under a real Kueue, a quota, an upgrade of the chart with a live sweep (20 min)
	$(PY) -m devcluster build --with kueue
	$(PY) -m pytest tests/platform -v

.PHONY: e2e-argocd
e2e-argocd: venv ## sweeps in Git under a real Argo CD (15 min)
	$(PY) -m devcluster build --with argocd
	$(PY) -m pytest tests/argocd -v

.PHONY: chaos
chaos: venv ## every fault on a real Kubernetes, and the table of docs/reliability.md; ONLY="word,word" picks some
	$(PY) -m tests.chaos.run $(if $(ONLY),--only "$(ONLY)")

.PHONY: fuzz
N ?= 10000
fuzz: venv ## N random sweeps against the real API server, 300 of the admitted under real KubeRay
	$(PY) -m tests.fuzz.run --count "$(N)" $(if $(SEED),--seed "$(SEED)")
