# prefect-gpu: `make help` lists what there is to do.
# Written for GNU make 3.81, which macOS ships.

PYTHON ?= python3
VENV ?= .venv
# The folder of the published traces that the benches replay.
DATA ?= $(or $(PREFECT_GPU_DATA),../shared/data)

# Stories mostly wait, for a server, a pod, a grace period: two at once take half the time.
JOBS ?= 2

BIN := $(VENV)/bin
SYSTEM_PACKAGES = python3-venv git gcc libc6-dev postgresql chromium prometheus $(CLUSTER_PACKAGES)
# For the local Kubernetes. What another source has installed stays: Docker's packages hold
# containerd and runc, and Debian's would remove them.
absent = $(if $(shell command -v $(1) || true),,$(2))
CLUSTER_PACKAGES = golang-go golang-github-modern-go-reflect2-dev dpkg-dev etcd-server \
	containernetworking-plugins busybox-static openssl $(call absent,containerd,containerd) \
	$(call absent,runc,runc) $(call absent,kubectl,kubernetes-client) $(call absent,npm,npm)
# The folder of the cluster that `make local-cluster` starts.
LOCAL_CLUSTER ?= .local-cluster
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# Where the two stamps of the virtual environment lie: they are newer than what is installed.
QUICKSTART_READY := $(VENV)/.quickstart-ready
DEV_READY := $(VENV)/.dev-ready

LOCK = $(BIN)/uv pip compile --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-annotate --quiet \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)
# A lock names every dependency, so that nothing is left to resolve, and the build back end. uv takes
# a sixth of pip's processor time, and knows no pip.conf: where it finds no index, pip installs.
# Python compiles a module when it is first imported: to compile all of them takes half of the
# installation. Where Python may not write what it compiles, it would compile for each process anew.
NO_COMPILE = $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
COMPILE = $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode)
PIP_LOCKED = $(BIN)/python -m pip install --disable-pip-version-check --quiet $(NO_COMPILE) \
	--require-hashes --no-deps
install = { $(BIN)/uv pip install --quiet --python $(BIN)/python $(COMPILE) --require-hashes --no-deps \
	-r $(1) || $(PIP_LOCKED) -r $(1); }
INSTALL_PACKAGE = $(BIN)/python -m pip install --disable-pip-version-check --quiet \
	--no-deps --no-build-isolation --editable .

# A dot every two seconds until the command before it has ended; its exit status counts.
DOTS = pid=$$!; while kill -0 $$pid 2>/dev/null; do printf .; sleep 2; done; wait $$pid

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help quickstart test test-all test-cluster test-gpu test-integration test-prefect lint docs images chaos bench \
	bench-anomalies bench-cluster bench-cost bench-input bench-month bench-policies bench-savings bench-servers bench-spot bench-sweeps \
	image-check month lock system-deps dev clean local-cluster local-cluster-down

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

quickstart: $(QUICKSTART_READY) ## Try everything on this machine: queue, preempt, resume, cost
	$(BIN)/prefect-gpu quickstart $(ARGS)

PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder

test: dev ## Run the quick tests, JOBS=2 at a time; ARGS="-k queue" goes to pytest
	$(PYTEST) --tier quick --durations 10 $(ARGS)

test-integration: dev ## Run the tests with Prefect, PostgreSQL, Chromium, helm or a clean clone, and stories
	$(PYTEST) --tier integration --durations 20 $(ARGS)

test-cluster: dev ## Run the tests with a Kubernetes (Debian, root, or PREFECT_GPU_TEST_KUBECONFIG)
	$(PYTEST) --tier cluster --durations 20 $(ARGS)

test-gpu: dev ## Run the tests with a real NVIDIA GPU and torch, which is not installed by this
	$(BIN)/python -m pytest -s --tier gpu --durations 10 $(ARGS)

test-prefect: dev ## Look for the parts of Prefect that are used in the lowest and highest release allowed
	$(BIN)/python tests/installed/check_prefect_releases.py

test-all: dev ## Run all tests
	$(PYTEST) --durations 40 $(ARGS)

lint: dev ## Check style, types and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: dev ## Write the parts of docs/ that are made of the code
	$(BIN)/python -m tests.layout.generated_docs

images: dev ## Make the pictures of the README anew, from a quickstart; takes minutes
	$(BIN)/python -m tests.support.readme_images

chaos: dev ## Disturb everything at random moments, more often than the tests do; takes hours
	PREFECT_GPU_CHAOS_SEEDS=20 $(BIN)/python -m pytest tests/end_to_end/test_killed_worker.py $(ARGS)
	PREFECT_GPU_OUTAGE_S=$${PREFECT_GPU_OUTAGE_S:-600} \
		$(BIN)/python -m pytest tests/end_to_end/test_outages.py -k ledger_is_down $(ARGS)
	PREFECT_GPU_CHAOS_RUNS=$${PREFECT_GPU_CHAOS_RUNS:-100} \
		PREFECT_GPU_CHAOS_SIMULATED=$${PREFECT_GPU_CHAOS_SIMULATED:-138} \
		PREFECT_GPU_SOAK_RUNNING=$${PREFECT_GPU_SOAK_RUNNING:-500} \
		PREFECT_GPU_SOAK_QUEUED=$${PREFECT_GPU_SOAK_QUEUED:-1000} \
		PREFECT_GPU_SOAK_MINUTES=$${PREFECT_GPU_SOAK_MINUTES:-120} \
		PREFECT_GPU_CHAOS_SEEDS=$${PREFECT_GPU_CHAOS_SEEDS:-3} PREFECT_GPU_LOAD_RUNS=100 \
		PREFECT_GPU_LOAD_CONTAINERS=$${PREFECT_GPU_LOAD_CONTAINERS:-110} \
		PREFECT_GPU_LOG_STREAMS=$${PREFECT_GPU_LOG_STREAMS:-2000} \
		$(BIN)/python -m pytest -s tests/end_to_end/test_chaos.py tests/cluster/test_chaos.py \
		tests/cluster/test_load.py tests/cluster/test_log_streams.py tests/cluster/test_soak.py $(ARGS)
	PREFECT_GPU_GENERATED_S=$${PREFECT_GPU_GENERATED_S:-1800} \
		$(BIN)/python -m pytest tests/gpu_core/worker/test_generated_runs.py $(ARGS)

# `make bench month` is `make bench-month`, which is a goal already.
BENCHES := $(if $(filter month,$(MAKECMDGOALS)),,\
	bench-input bench-policies bench-month bench-spot bench-anomalies bench-savings bench-sweeps bench-cost \
	bench-servers bench-cluster)

# A promise that is broken ends its own part with an error: the others are measured all the same.
# A goal that is missed is printed or written, and ends none.
bench: ## Measure everything; results go to bench-results/. "make bench month": only the month
	@$(if $(BENCHES),$(MAKE) --no-print-directory --keep-going $(addprefix timed-,$(BENCHES)))

# Which part it is, and how long it took.
timed-%:
	@began=$$(date +%s); $(MAKE) --no-print-directory $*; status=$$?; \
		echo "$*: $$(($$(date +%s) - began)) s"; exit $$status

month: bench-month

bench-month: dev ## A month of real arrivals (DATA=folder) on spot and on-demand, against a fixed cluster
	@test -n "$(DATA)" || { echo "Set DATA, or PREFECT_GPU_DATA, to the folder of the traces." >&2; exit 2; }
	$(BIN)/python -m benchmarks.month --data $(DATA) --out bench-results/month.json $(ARGS)

bench-input: dev ## Read 100,000 job variables of all kinds: none may fail, none may take a second
	$(BIN)/python -m benchmarks.job_variables --out bench-results/job_variables.json $(ARGS)

bench-servers: dev ## Measure how long runs wait for their start, starts a second, and many at once; ARGS="--runs 10" is quicker
	$(BIN)/python -m benchmarks.start_latency $(ARGS)
	$(BIN)/python -m benchmarks.start_rate $(ARGS)
	$(BIN)/python -m benchmarks.load $(ARGS)

bench-cluster: dev ## Measure the Kubernetes worker and Prefect's own, in turns on simulated nodes; ARGS="--rounds 2" is quicker
	$(BIN)/python -m benchmarks.kubernetes $(ARGS)
	$(BIN)/python -m benchmarks.log_streams

bench-policies: dev ## Replay published traces (DATA=folder), and compare with their references
	@test -n "$(DATA)" || { echo "Set DATA, or PREFECT_GPU_DATA, to the folder of the traces." >&2; exit 2; }
	@mkdir -p bench-results
	$(BIN)/python -m benchmarks.decision_speed --data $(DATA) --out bench-results/decision_speed.json
	$(BIN)/python -m benchmarks.placement --data $(DATA) --json > bench-results/placement.json
	$(BIN)/python -m benchmarks.victims --out bench-results/victims.json
	$(BIN)/python -m benchmarks.evictions --data $(DATA) --out bench-results/evictions.json
	$(BIN)/python -m benchmarks.forecast --data $(DATA) --json > bench-results/forecast.json
	PREFECT_GPU_EXAMPLES=10000 $(PYTEST) -q tests/gpu_core/decisions/scheduling/test_invariants.py
	PREFECT_GPU_EXAMPLES=20000 $(PYTEST) -q tests/gpu_core/decisions/scheduling/eviction/test_victims_against_oracle.py
	$(BIN)/python -m benchmarks.scheduling --data $(DATA) --out bench-results/scheduling.json
	$(BIN)/python -m benchmarks.check_ranges bench-results/scheduling.json

bench-spot: dev ## Replay spot traces (DATA=folder), and measure checkpoints
	@test -n "$(DATA)" || { echo "Set DATA, or PREFECT_GPU_DATA, to the folder of the traces." >&2; exit 2; }
	@mkdir -p bench-results
	$(BIN)/python -m benchmarks.spot --data $(DATA) --starts 60 --json > bench-results/spot.json
	$(BIN)/python -m benchmarks.spot --data $(DATA) --starts 60 --second-half --json > bench-results/spot_second_half.json
	$(BIN)/python -m benchmarks.spot --data $(DATA) --starts 12 --generated --json > bench-results/spot_generated.json
	$(BIN)/python -m benchmarks.changeover --data $(DATA) --json > bench-results/changeover.json
	$(BIN)/python -m benchmarks.checkpoint_policy --json > bench-results/checkpoint_policy.json
	$(BIN)/python -m benchmarks.checkpoint_upload --json > bench-results/checkpoint_upload.json

bench-anomalies: dev ## Judge generated cost years, and published cost series (DATA=folder) with Numenta's score
	@test -n "$(DATA)" || { echo "Set DATA, or PREFECT_GPU_DATA, to the folder of the traces." >&2; exit 2; }
	$(BIN)/python -m benchmarks.anomalies --data $(DATA) --out bench-results/anomalies.json $(ARGS)

bench-savings: dev ## Predict savings in generated histories, apply each proposal, and measure; ARGS="--histories 10" is quicker
	$(BIN)/python -m benchmarks.savings --out bench-results/savings.json $(ARGS)

bench-sweeps: dev ## Park the runs of generated sweeps by dollars: what is saved, how often the best is lost; ARGS="--sweeps 40" is quicker
	$(BIN)/python -m benchmarks.sweeps $(ARGS)

bench-cost: dev ## Add up 10,000 random timelines, and report a month of 100,000 attempts, in SQLite or with ARGS="--ledger postgresql+psycopg://…" in an empty database
	PREFECT_GPU_EXAMPLES=10000 $(PYTEST) -q tests/gpu_core/decisions/costs/test_conservation.py
	$(BIN)/python -m benchmarks.cost_report --out bench-results/cost_report.json $(ARGS)
	$(BIN)/python -m benchmarks.cycle_records --out bench-results/cycle_records.json

image-check: dev ## Build the images without a daemon and run them where Kubernetes is strict (Debian, root); takes minutes
	$(SUDO) env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y --no-install-recommends buildah debootstrap $(call absent,runc,runc)
	$(SUDO) $(BIN)/python tests/infra/check_image.py $(ARGS)

local-cluster: ## Start a Kubernetes with a GPU node (Debian 12); it is built the first time. ARGS="--gpus 8"
	binaries=$$(tests/local_cluster/build.sh) && \
		$(SUDO) $(PYTHON) tests/local_cluster/up.py $(LOCAL_CLUSTER) --binaries "$$binaries" $(ARGS)

local-cluster-down: ## Stop it and remove its folder
	$(SUDO) $(PYTHON) tests/local_cluster/down.py $(LOCAL_CLUSTER)

# dev.txt first: the other two take their versions from it, so that it holds all of them.
lock: | $(BIN)/uv ## Resolve requirements/*.txt again (UPGRADE=1: to newer versions)
	$(LOCK) pyproject.toml --group dev --group quickstart --extra postgresql -o requirements/dev.txt
	$(LOCK) pyproject.toml --group quickstart --extra postgresql -c requirements/dev.txt -o requirements/quickstart.txt
	$(LOCK) pyproject.toml --extra postgresql -c requirements/dev.txt -o requirements/runtime.txt
	$(LOCK) --group sbom -c requirements/dev.txt -o requirements/sbom.txt
	$(LOCK) --group focus -o requirements/focus.txt

system-deps: ## Install what the tests use apart from Python (Debian, Ubuntu), and fetch helm
	@command -v apt-get > /dev/null || { \
		echo "This is not Debian: install git, a C compiler, PostgreSQL and Chromium with your own" \
			"package manager. Tests that miss one of them say so and are skipped." >&2; exit 1; }
	$(SUDO) apt-get update
	$(SUDO) env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y --no-install-recommends $(SYSTEM_PACKAGES)
	-infra/helm/tools.sh > /dev/null

dev: $(DEV_READY) ## Prepare the virtual environment for development

clean: ## Remove .venv, caches and build results; state in .quickstart stays
	rm -rf .venv build dist bench-results .mypy_cache .pytest_cache .ruff_cache \
		.hypothesis .import_linter_cache
	find gpu_core blocks flows tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "prefect-gpu needs Python 3.11 or newer, and '$(PYTHON)' is" \
			"$$($(PYTHON) --version 2>/dev/null || echo 'no Python')." \
			"Name another: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv "$(VENV)"

# The one of the development lock, with its hashes.
$(BIN)/uv: | $(BIN)/python
	@sed -n '/^uv==/,/[^\\]$$/p' requirements/dev.txt | $(PIP_LOCKED) -r /dev/stdin

$(QUICKSTART_READY): requirements/quickstart.txt pyproject.toml | $(BIN)/uv
	@echo "Installing what the quickstart needs; this takes a few minutes the first time."
	@$(call install,requirements/quickstart.txt) & $(DOTS)
	@$(INSTALL_PACKAGE) & $(DOTS)
	@echo; touch $@

# dev.txt holds everything of quickstart.txt, in the same versions: one environment serves both.
$(DEV_READY): requirements/dev.txt pyproject.toml | $(BIN)/uv
	@echo "Installing what development needs; this takes a few minutes the first time."
	$(call install,requirements/dev.txt)
	$(INSTALL_PACKAGE)
	@touch $@ $(QUICKSTART_READY)
