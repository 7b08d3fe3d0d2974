# Every command of the bundle; bare `make` prints this list.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PATH := $(abspath $(BIN)):$(PATH)
-include .env
export

WEIGHTS ?= IMAGENET1K_V2
GIT_REVISION ?= $(shell git rev-parse --short HEAD 2>/dev/null)

.PHONY: help
help:  ## this list
	@awk -F':.*## ' '/^##/ {printf "\n%s\n", substr($$0, 4)} /^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# Installed once per change of pyproject.toml; demo extras first, so that a user waits for less.
$(BIN)/.installed-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the $* dependencies into $(VENV) (several minutes the first time)" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

## Embedded mode: the real tritonserver on this CPU, no Docker, no GPU
.PHONY: demo serve classify
demo: $(BIN)/.installed-demo  ## install, export, serve, classify photographs, show the answers, stop
	@python scripts/demo.py

serve: $(BIN)/.installed-demo  ## serve in the foreground on HTTP_PORT, GRPC_PORT, METRICS_PORT
	@python scripts/serve.py

classify: $(BIN)/.installed-demo  ## classify IMG=file, folder, glob or URL on a running server
	@python scripts/classify.py $(IMG) $(ARGS)

## Checks
.PHONY: test lint
test: $(BIN)/.installed-dev  ## every test that this machine can run
	@python scripts/demo.py --prepare
	@python -m pytest $(ARGS)

lint: $(BIN)/.installed-dev  ## ruff, mypy and the configuration lint
	@ruff check . && ruff format --check . && mypy && python scripts/doctor.py --lint
