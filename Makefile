# Every target installs what it needs into .venv. You need python3 and make, but no root rights.
# To use another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUN    := $(VENV)/.ready-to-run
READY  := $(VENV)/.ready
DOCS   := build/docs-venv

.PHONY: screenshots demo test check bench soak docs clean django-suite frameworks

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

demo: $(RUN)     ## a tour of half a minute: immediate, delayed, retried, serialised and scheduled jobs, a flow and an approval
	@$(BIN)/mita demo
	@echo "The dashboard of a shop: $(BIN)/mita demo --web"

test: $(READY)   ## run every test; ARGS= passes options to pytest
	$(BIN)/python -m pytest -n 2 $(ARGS) $(ALONE)

check: $(READY)  ## run the linters, the type checker and the import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## measure speed beside the raw loop of each database; ARGS= selects stores and workloads
	@$(BIN)/python -m benchmarks $(ARGS)

soak: $(READY)   ## run the long tests: more kills, more jobs, longer random walks
	MITA_SOAK=1 $(BIN)/python -m pytest tests/e2e tests/contract/test_walk.py tests/repeats tests/stores tests/contrib tests/web -n 2 --timeout 7200 --ignore tests/e2e/test_limits.py $(ARGS) || test $$? -eq 5
	@# alone, because it measures how exactly a rate is used; 5: ARGS select none of its tests
	MITA_SOAK=1 $(BIN)/python -m pytest tests/e2e/test_limits.py --timeout 7200 $(ARGS) || test $$? -eq 5

$(DOCS)/.ready: requirements/docs.txt
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@echo "installing MkDocs into $(DOCS) …"
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@touch $@

docs: $(DOCS)/.ready  ## build the site of the documentation into build/site, and check its links
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build
	@$(DOCS)/bin/python -m tools.site.check build/site

django-suite: $(READY)  ## run Django's own tests of task backends; needs PYTHON=python3.12 or later, and its VENV=
	$(BIN)/python -m tools.django_suite

screenshots: $(READY)  ## take the pictures of the dashboard for the guide, with the Chromium of this machine
	$(BIN)/python -m tools.screenshots

frameworks: $(READY)  ## run the tests of integrations with the oldest versions that they claim
	$(BIN)/python -m tools.frameworks $(ARGS)

clean:           ## delete everything that the other targets installed or built
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
