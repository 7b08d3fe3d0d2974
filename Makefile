# Every command of the bundle; bare `make` prints this list.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PATH := $(abspath $(BIN)):$(PATH)
# As for docker compose: the environment wins over .env.
ifneq (,$(wildcard .env))
$(shell mkdir -p build && sed 's/^\([A-Z_][A-Z0-9_]*\)=/\1 ?= /' .env > build/env.mk)
include build/env.mk
endif
GIT_REVISION ?= $(shell git rev-parse --short HEAD 2>/dev/null)
export

.PHONY: help
help:  ## this list
	@awk -F':.*## ' '/^##/ {printf "\n%s\n", substr($$0, 4)} /^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# $(call need,VARIABLE,example): stop with one line where a variable is missing.
need = @test -n '$($(1))' || { echo "usage: make $@ $(1)=$(2)" >&2; exit 2; }

# Installed again whenever pyproject.toml changes.
$(BIN)/.installed-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the $* dependencies into $(VENV); several minutes the first time" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$*]' \
		$(if $(TORCH_INDEX_URL),--extra-index-url '$(TORCH_INDEX_URL)')
	@touch $@

## Embedded mode: the real tritonserver on this CPU, no Docker, no GPU
.PHONY: demo serve classify
demo: $(BIN)/.installed-demo  ## install, export, serve, classify photographs, show the answers, stop
	@python scripts/demo.py $(ARGS)

serve: $(BIN)/.installed-demo secrets  ## serve in the foreground on HTTP_PORT, GRPC_PORT, METRICS_PORT
	@python scripts/serve.py $(ARGS)

classify: $(BIN)/.installed-demo  ## classify IMG=file, folder, glob or URL on a running server
	$(call need,IMG,photo.jpg)
	@python scripts/classify.py '$(IMG)' $(ARGS)

## Models: export, add, publish
.PHONY: export-onnx export-trt new-pipeline publish rollback versions
export-onnx: $(BIN)/.installed-demo  ## PyTorch to model.onnx, checked against PyTorch (WEIGHTS=IMAGENET1K_V2)
	@python scripts/export_onnx.py $(if $(WEIGHTS),--weights $(WEIGHTS)) $(ARGS)

export-trt:  ## model.onnx to a TensorRT FP16 engine for this GPU, in the export container
	@docker compose run --rm --build export

new-pipeline: $(BIN)/.installed-demo  ## four model folders for NAME and ONNX=file (ARGS='--labels ...')
	$(call need,NAME,my_classifier)
	$(call need,ONNX,my_classifier.onnx)
	@python scripts/new_pipeline.py $(NAME) --onnx $(ONNX) $(ARGS)

publish: $(BIN)/.installed-demo  ## ONNX=file becomes the next version of a running server, or nothing changes
	$(call need,ONNX,model.onnx)
	@python scripts/publish.py publish $(ONNX) $(addprefix --labels ,$(LABELS)) $(ARGS)

rollback: $(BIN)/.installed-demo  ## go back to the version before
	@python scripts/publish.py rollback $(ARGS)

versions: $(BIN)/.installed-demo  ## what is kept, what is live
	@python scripts/publish.py versions $(ARGS)

## The Compose stack
.PHONY: secrets up up-cpu down ps logs smoke verify-gpu
secrets:  ## make the admin key and Grafana's password, once
	@$(PYTHON) scripts/create_secrets.py

# The export first and alone: if it fails, what runs keeps running.
CPU_FILES := -f docker-compose.yml -f compose.cpu.yml
up: secrets  ## build, export and start everything on a GPU host
	@docker compose build && docker compose run --rm export && docker compose up --detach --wait

up-cpu: secrets  ## the same stack without a GPU
	@docker compose $(CPU_FILES) build && docker compose $(CPU_FILES) run --rm export \
		&& docker compose $(CPU_FILES) up --detach --wait

down:  ## stop the stack; volumes stay
	@docker compose down

ps:  ## what runs, and whether it is healthy
	@docker compose ps --all

logs:  ## follow the logs
	@docker compose logs --follow --tail 100

smoke: $(BIN)/.installed-client  ## classify through the published port, check Prometheus and Grafana
	@python scripts/smoke.py $(ARGS)

verify-gpu: $(BIN)/.installed-demo  ## on a GPU host: engine, answers and GPU metrics are right
	@python scripts/verify_gpu.py $(ARGS)

## Monitoring
.PHONY: rules dashboards dashboard-pictures
rules: $(BIN)/.installed-dev  ## write Prometheus' rules and their tests from scripts/alerting and .env
	@python scripts/generate_rules.py $(ARGS)

dashboards: $(BIN)/.installed-dev  ## write Grafana's dashboards from grafana/source
	@python -m grafana.source $(ARGS)

dashboard-pictures: $(BIN)/.installed-dev  ## play half an hour of traffic and draw docs/pictures (npm, chromium, prometheus)
	@npm --prefix grafana/pictures ci && python -m grafana.pictures.scene $(ARGS)

## Checks
.PHONY: test lint doctor fuzz soak
test: $(BIN)/.installed-dev  ## every test that this machine can run
	@python scripts/demo.py --prepare
	@python -m pytest $(ARGS)

lint: $(BIN)/.installed-dev  ## ruff, mypy and the lint of every configuration
	@ruff check . && ruff format --check . && mypy \
		&& python scripts/generate_rules.py --check \
		&& python -m grafana.source --check && python scripts/doctor.py --lint

doctor: $(BIN)/.installed-demo  ## is this machine fit to run the bundle, and if not, what to do
	@python scripts/doctor.py $(ARGS)

N ?= 20000
fuzz: $(BIN)/.installed-demo  ## send N damaged images, texts and parameters to the real server
	@python scripts/fuzz.py --count $(N) $(ARGS)

soak: $(BIN)/.installed-demo  ## an hour of mixed traffic, partly above capacity
	@python scripts/soak.py $(ARGS)

## Measuring (wrk: apt-get install wrk)
.PHONY: bench bench-full bench-compare bench-preprocess parity bench-docs plan-capacity
bench: $(BIN)/.installed-bench  ## preprocessing, gateway, monolith and ensemble, sweeps: under ten minutes
	@python scripts/bench.py $(ARGS)

bench-full: $(BIN)/.installed-bench  ## the same with more rounds, clients, rates and variants
	@python scripts/bench.py --full $(ARGS)

bench-compare: $(BIN)/.installed-bench  ## do the ratios of the latest run (RUN=FILE: another) agree with the published ones
	@python scripts/bench_compare.py $(RUN) $(ARGS)

bench-preprocess: $(BIN)/.installed-bench  ## ours, torchvision's, the tutorial's and a bare decode, interleaved
	@python scripts/bench_preprocess.py $(ARGS)

parity: $(BIN)/.installed-bench  ## agreement with torchvision and PyTorch over varied real crops
	@python scripts/parity.py $(ARGS)

bench-docs: $(BIN)/.installed-bench  ## write docs/benchmarks.md from results (RESULTS=build/bench.json)
	@python scripts/bench_docs.py $(if $(RESULTS),--results $(RESULTS)) $(if $(PARITY),--parity $(PARITY)) $(ARGS)

plan-capacity: $(BIN)/.installed-bench  ## cores, instances, batch, shm for GPU=l4 CORES=16 IMAGE=1080p RATE=500
	@python scripts/plan_capacity.py --gpu $(GPU) --cores $(CORES) --image $(IMAGE) --rate $(RATE) $(ARGS)
