# Every target sets itself up: it needs python3 and make, nothing else, and no root.
# Another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUN    := $(VENV)/.ready-to-run
READY  := $(VENV)/.ready

.PHONY: demo test check bench soak clean

$(RUN): requirements/run.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Mita into $(VENV) …"
	@$(PIP) -r requirements/run.txt
	@$(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

$(READY): $(RUN) requirements/dev.txt
	@echo "installing test tools and servers into $(VENV) …"
	@$(PIP) -r requirements/dev.txt
	@touch $@

demo: $(RUN)     ## watch jobs run now, later, again, by turns and by the clock, on one file
	@$(BIN)/mita demo

test: $(READY)   ## every test
	$(BIN)/python -m pytest -n 2 $(ARGS) $(ALONE)

check: $(READY)  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## figures, with the engine's raw loop of the same run beside ours; ARGS= chooses
	@$(BIN)/python -m benchmarks $(ARGS)

soak: $(READY)   ## the long form: more kills, more jobs, longer walks
	MITA_SOAK=1 $(BIN)/python -m pytest tests/e2e tests/contract/test_walk.py tests/repeats tests/stores -n 2 --timeout 7200 $(ARGS)

clean:
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
