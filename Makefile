# The verbs that people and CI use. GNU make and any POSIX shell.
#   make run PYTHON=python3.12     with another Python (3.11 or later)
#   make test ARGS='-k serve'      with further arguments for pytest
PYTHON ?= python3
ARGS ?=
UV := 0.13.9
PY := .venv/bin/python
RUNTIME := requirements.txt constraints.txt
DEV := requirements-dev.txt $(RUNTIME)

# The deploy check looks at the settings as they are behind a proxy with TLS.
DEPLOYED := RENOR_PUBLIC_URL=https://renor.example RENOR_SMTP_URL=smtps://mail.renor.example

.DEFAULT_GOAL := help
.SUFFIXES:
MAKEFLAGS += --no-print-directory
# Several processes import the same modules at every start: compiled once is enough.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup setup-dev run test check browser campaign bench bench-recall fmt lock

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: ## Make .venv with what the server needs; again only when a pin changed
	@$(call install,runtime,requirements.txt,$(RUNTIME))

setup-dev: ## The same with what tests and checks need on top
	@$(call install,dev,requirements-dev.txt,$(DEV))

run: setup ## Set up what is missing and start Renor; Ctrl-C ends all of it
	@exec $(PY) manage.py serve --end-with-parent

test: setup-dev ## Run every test, in the browser too where Chromium is
	@$(PY) -m pytest tests/unit tests/integration tests/browser \
	    --cov --cov-report=term:skip-covered $(ARGS)

browser: setup-dev ## Run the journeys in the browser alone
	@$(PY) -m pytest tests/browser $(ARGS)

check: setup-dev ## Lint, types, import contracts, deploy check, migrations
	@folder=`mktemp -d`; trap 'rm -rf "$$folder"' EXIT; export RENOR_DATA="$$folder"; \
	failed=; \
	step() { echo "check  | $$1"; shift; "$$@" || failed=1; }; \
	step format $(PY) -m ruff format --check --quiet .; \
	step lint $(PY) -m ruff check --quiet --output-format concise .; \
	step types $(PY) -m mypy --no-error-summary; \
	step imports $(PY) -c 'import importlinter.cli as cli; cli.lint_imports_command()' --no-logo; \
	step migrations $(PY) manage.py makemigrations --check --dry-run -v 0; \
	step "deploy check" env $(DEPLOYED) \
	    $(PY) manage.py check --deploy --fail-level WARNING; \
	test -z "$$failed"

campaign: setup-dev ## Kill the engine 10,000 times and look for what is lost; ARGS='--kills N --seed S'
	@$(PY) -m tests.campaigns.kills $(ARGS)

bench: setup-dev ## Print the figures of speed, and write them to bench.json
	@$(PY) -m tests.bench $(ARGS)

bench-recall: ## Print the figures of retrieval quality
	@echo "bench-recall comes with the embeddings." >&2; exit 2

fmt: setup-dev ## Format the code and mend what the linter can mend
	@$(PY) -m ruff format --quiet .
	@$(PY) -m ruff check --fix .

lock: setup-dev ## Write constraints.txt anew from the requirement files
	@$(PY) -m uv pip compile --quiet --universal --python-version 3.11 \
	    --no-header --no-annotate requirements-dev.txt --output-file constraints.txt

# $(call install,NAME,REQUIREMENTS,FILES THAT COUNT): installs into .venv unless a stamp
# with the sum of those files says that it was done. The sum counts, not the time: a
# checkout touches files without changing them. The file `made` says that the
# environment holds pip and uv: a start interrupted before that leaves a broken one,
# which looks whole, and it is made anew.
define install
set -e; \
sum=`{ pwd; cat $(3); echo $(UV); } | cksum`; \
if [ "`cat .venv/stamp-$(1) 2>/dev/null`" = "$$sum" ] && $(PY) -c '' 2>/dev/null; then exit 0; fi; \
if [ ! -e .venv/made ] || ! $(PY) -c 'import pip' 2>/dev/null; then \
    $(check_python); \
    echo "setup  | virtual environment .venv (`$(PYTHON) -V 2>&1`)"; \
    $(PYTHON) -m venv --clear .venv; \
fi; \
echo "setup  | dependencies of $(2)"; \
$(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV); \
: > .venv/made; \
$(PY) -m uv pip install --quiet --python $(PY) -r $(2) -c constraints.txt; \
echo "$$sum" > .venv/stamp-$(1)
endef

define check_python
if ! command -v $(PYTHON) >/dev/null; then \
    echo "$(PYTHON) is not there. Install Python 3.11 or later, or name one: make run PYTHON=python3.12" >&2; exit 1; \
fi; \
if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
    echo "Renor needs Python 3.11 or later; $(PYTHON) is `$(PYTHON) -V 2>&1`. Name another one: make run PYTHON=python3.12" >&2; exit 1; \
fi; \
if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
    version=`$(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'`; \
    echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python$$version-venv" >&2; exit 1; \
fi
endef
