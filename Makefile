# Two commands do everything: `make demo` and `make test`. Each target creates what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp

# What tests of gRPC leave behind crashes the process when it is freed under another event loop, or from a captured log
# record after gRPC has ended: they have a process and one loop of their own, and no records.
GRPC := $(BIN)/python -m pytest -p no:logging -W ignore:Unknown -m "not life" tests/compat_grpc \
	-o asyncio_default_test_loop_scope=session -o asyncio_default_fixture_loop_scope=session

.PHONY: demo test lives lint proto e2e e2e-full soak soak-real mutants bench bench-planner bench-real clean

$(STAMP): requirements-dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/verda-gpu-autoscaler demo

# Compiled tests are kept where the caller's environment forbids it, too: each process would compile all of them anew.
test lives: export PYTHONDONTWRITEBYTECODE :=

test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 4 --dist worksteal -m "not life" --ignore tests/compat_grpc
	$(GRPC)

# Whole lives of machines, each with a fault in it: the real program over HTTP. About two minutes.
lives: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 6 --dist worksteal -m life

lint: $(STAMP)
	$(BIN)/ruff check controller compat_grpc tests
	$(BIN)/ruff format --check --quiet controller compat_grpc tests
	$(BIN)/mypy
	$(BIN)/lint-imports

# The code made from proto/*.proto, which is checked in. A test says whether it is current.
proto: $(STAMP)
	$(BIN)/python -m grpc_tools.protoc -Icompat_grpc/wire=proto --python_out=. --pyi_out=. $(addprefix compat_grpc/wire/,$(notdir $(wildcard proto/*.proto)))

e2e: $(STAMP)
	tests/e2e/run

# The scenarios again, and those with the product's own times. About half an hour.
e2e-full: $(STAMP)
	tests/e2e/run -m "not soak"

# A thousand simulated days of harsh faults (SOAK_DAYS), a death at every await of a story, 200 processes killed.
SOAK_DAYS ?= 1000
SOAK_SEED ?= 0
soak: $(STAMP)
	$(BIN)/verda-gpu-autoscaler simulate --seeds $(SOAK_DAYS) --seed $(SOAK_SEED) --hours 24 --faults harsh --json
	EVERY_AWAIT=1 $(BIN)/python -m pytest -s tests/simulator/test_simulator_every_await.py
	KILLED=200 $(BIN)/python -m pytest -s tests/simulator/test_simulator_killed_processes.py

# On a real control plane: random trouble for SOAK_MINUTES (20); SOAK_SEED repeats a course of events.
soak-real: $(STAMP)
	tests/e2e/run -m soak --numprocesses 0 -s

# Deliberate bugs, one at a time, each of which a simulated story or a test has to notice. MUTANTS="part of a name".
mutants: $(STAMP)
	$(BIN)/python -m tests.simulator.mutants $(MUTANTS)

bench: $(STAMP)
	$(BIN)/verda-gpu-autoscaler bench latency
	$(BIN)/verda-gpu-autoscaler bench decode
	$(BIN)/verda-gpu-autoscaler bench memory
	$(BIN)/verda-gpu-autoscaler bench cloud
	$(BIN)/verda-gpu-autoscaler bench adapter
	$(BIN)/verda-gpu-autoscaler bench grpc
	$(BIN)/python -m tests.bench $(or $(BENCH),--write)

# The planner alone, against goals: Karpenter's own benchmark beside it where Go is, the price's floor, the exact optimum.
# BENCH="--json", "--write", "--small", "--only gpu", "--no-karpenter" and the like.
bench-planner: $(STAMP)
	@$(BIN)/python -m tests.bench $(BENCH)

# On a real control plane, against goals: about ten minutes. BENCH="--json", "--write", "--only latency" and the like.
bench-real: $(STAMP)
	@tests/e2e/run --bench $(BENCH)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
