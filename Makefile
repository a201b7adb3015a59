# Targets for development. `make` lists them.

.DEFAULT_GOAL := help
GO ?= go
N ?= 200
VLLM ?= 0.33.0 0.24.0 0.19.1
SEED ?= 1
# Random workloads for each setting of make parity-vllm, the settings for all releases, and the settings for one release.
# vLLM 0.24.0 ignores prefill_schedule_interval.
VLLM_EACH ?= 300
VLLM_SETTINGS = '"sliding_window":-1' '"policy":"priority"' '"speculative_config":"random"'
VLLM_SETTINGS_0.24.0 = '"prefill_schedule_interval":4'
VLLM_SETTINGS_0.33.0 = '"watermark":0.1' '"prefill_schedule_interval":4' '"max_num_active_seqs":3'
# The settings of KV connectors: OffloadingConnector, SimpleCPUOffloadConnector, NIXL with pull and push, and combinations of
# them. replay rejects SimpleCPUOffloadConnector with priorities before vLLM 0.33.
VLLM_HOST = "num_g2_blocks":-1
VLLM_SIMPLE = $(VLLM_HOST),"kv_offload_connector":"simple"
VLLM_CACHED = "enable_prefix_caching":true
VLLM_PD = "prefill_workers":-1
VLLM_PUSH = $(VLLM_PD),"kv_transfer":"push"
VLLM_PRIORITY = "policy":"priority"
VLLM_CONNECTORS = '$(VLLM_HOST),$(VLLM_CACHED)' '$(VLLM_SIMPLE),$(VLLM_CACHED)' '$(VLLM_HOST),$(VLLM_CACHED),$(VLLM_PRIORITY)' \
  '$(VLLM_PD)' '$(VLLM_PD),$(VLLM_PRIORITY)' '$(VLLM_PD),$(VLLM_HOST)' '$(VLLM_PD),$(VLLM_HOST),$(VLLM_PRIORITY)' '$(VLLM_PD),$(VLLM_SIMPLE)' \
  '$(VLLM_PUSH)' '$(VLLM_PUSH),$(VLLM_PRIORITY)' '$(VLLM_PUSH),$(VLLM_HOST)' '$(VLLM_PUSH),$(VLLM_HOST),$(VLLM_PRIORITY)' '$(VLLM_PUSH),$(VLLM_SIMPLE)'
VLLM_CONNECTORS_0.33.0 = '$(VLLM_SIMPLE),$(VLLM_CACHED),$(VLLM_PRIORITY)' '$(VLLM_PD),$(VLLM_SIMPLE),$(VLLM_PRIORITY)' '$(VLLM_PUSH),$(VLLM_SIMPLE),$(VLLM_PRIORITY)'
# Random workloads for each setting of make parity-sglang, and the settings. Each runs in both scheduler loops.
SGLANG_EACH ?= 50
SGLANG_SETS = '"schedule_conservativeness":0.0' '"enable_mixed_chunk":true' '"ignore_eos":true' '"enable_prefix_caching":false' \
  '"enable_prefix_caching":false,"ignore_eos":true' '"prefill_max_requests":2' '"schedule_policy":"lof"' '"schedule_policy":"hrrn"' \
  '"draw":["clip"]' '"draw":["ranks"]' '"draw":["ranks","windows"]' '"draw":["windows"]' '"draw":["priority"]' '"draw":["drafts"]' '"draw":["straddle","drafts"]' '"enable_hierarchical_cache":true' \
  '"draw":["outgrow"]' '"draw":["drafts","clip"]' '"schedule_policy":"random"' '"schedule_policy":"shortest-prefill-first"' '"draw":["eviction"]' '"draw":["interval"]'
SGLANG_NUMBERS = $(shell seq $(words $(SGLANG_SETS)))
# The folder of optional data: recorded traces, measured servers, more results of the reference.
REPLAY_DATA ?= ../shared
PLANNER_PYTHON ?= .venv/bin/python
MOONCAKE ?= $(REPLAY_DATA)/traces/mooncake_conversation.jsonl
FUZZTIME ?= 30s
COUNT ?= 10
ROW ?=
PROFILES ?= bin/profiles
PEERS ?= 1.2.1 1.6.1
DIST ?= dist
# Number of requests that make bench-scale replays, and number of requests of the compared reports.
SCALE ?= 44e6
EQUAL ?= 10e6
PLATFORMS ?=
# Number of requests that make gateways sends to each gateway.
GATEWAY_REQUESTS ?= 2000
# Number of seeds of these requests.
GATEWAY_SEEDS ?= 2
# Duration of make fleet-soak.
SOAK ?= 10m

# Python 3.10 or later.
PYTHON3 ?= python3

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/replay and bin/replay-live
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/ ./cmd/replay ./live/cmd/replay-live

wasm: ## make bin/explorer.html, the page of replay ui with the simulator included
	$(GO) run ./cmd/explorer -out bin/explorer.html

test: ## run the tests with the checks of invariants
	$(GO) test -tags invariants ./... ./live/... ./tools/...

race: ## run the tests of concurrent packages under the race detector
	.ci/run race

fuzz: ## fuzz each target for FUZZTIME
	FUZZTIME=$(FUZZTIME) .ci/run fuzz

release: ## make the archives, checksums, lists of materials, image and Homebrew formula of the commit in DIST
	$(GO) run ./tools/release -out $(DIST) -platforms '$(PLATFORMS)'

footprint: ## check the limits of 27.5 MB for the stripped program and of 16 MiB resident for replay --version and a replay of 100 requests
	$(GO) run ./tools/footprint

wheel: ## make the wheels of the commit in bin/wheels for pip (PLATFORMS=linux/amd64 makes one)
	$(GO) run ./tools/release -wheels -out bin/wheels -platforms '$(PLATFORMS)'

release-twice: ## make the release twice and compare every byte
	$(GO) run ./tools/release -out $(DIST) -platforms '$(PLATFORMS)' -twice

golden: ## replay the cases of testdata/reference, and those of the optional data (REPLAY_DATA)
	$(GO) run ./tools/golden

golden-arm64: ## replay the golden cases here and in an arm64 build under qemu, and compare the bytes
	$(GO) run ./tools/golden -arch arm64

parity: ## compare N random workloads from SEED with the reference
	$(GO) run ./tools/parity -n $(N) -seed $(SEED)

parity-all: ## compare 50 random cases with each oracle: vLLM, SGLang, Kubernetes, KEDA, the planner of Dynamo, gateways, the reference (a missing oracle is skipped)
	.ci/parity-all

freeze: ## compare output, exit code and files of 5,000 random command lines between the programs OLD and NEW
	$(GO) run ./tools/freeze -old $(OLD) -new $(NEW) -seed $(SEED)

liveness: ## run N random replays on tiny engines from SEED and check that each ends
	$(GO) run -tags invariants ./tools/liveness -n $(N) -seed $(SEED)
	$(GO) run -tags invariants ./tools/liveness -n $(N) -seed $(SEED) -only sglang -skip compat
	$(GO) run -tags invariants ./tools/liveness -n $(N) -seed $(SEED) -only trtllm
	$(GO) run ./tools/parity -alone -only hopeless -n $(N) -seed $(SEED)

parity-vllm: ## compare N random workloads with vLLM's scheduler, for three releases and two seeds each (Python 3.10 to 3.13; skipped without it); VLLM_SETS is connectors, engine, ranks or windows to run one set
	@tools/vllmoracle/run 0.33.0 --python || exit 0; $(MAKE) --no-print-directory parity-vllm-$(or $(VLLM_SETS),all)

# cases compares random workloads with a release. Its arguments are a title, settings, the number of workloads, their seed, and
# recorded cases.
VLLM_CASES = cases() { echo "== vLLM $*, $$1"; VLLM_ORACLE_S=3600 VLLM_ORACLE_PROFILE=vllm-$(basename $*) tools/vllmoracle/run $* \
	  --parity "$$3" --seed "$$4" --set "$$2" --replay bin/replay --out bin/parity-vllm/$* $${5:+--cases $$5}; }; set -e

# Two releases run at once.
parity-vllm-engine parity-vllm-connectors parity-vllm-ranks parity-vllm-windows:
	$(GO) build -o bin/replay ./cmd/replay
	@$(MAKE) --no-print-directory --jobs=2 --output-sync $(addprefix $@-,$(if $(filter %-engine,$@),$(VLLM),0.33.0 0.24.0))

parity-vllm-engine-%:
	@$(VLLM_CASES); \
	for seed in 1 2; do cases "seed $$seed" '{}' $(N) $$seed tools/vllmoracle/cases.jsonl; done; \
	for setting in $(VLLM_SETTINGS) $(VLLM_SETTINGS_$*); do cases "$$setting" "{$$setting}" $(VLLM_EACH) 3; done

parity-vllm-connectors-%:
	@$(VLLM_CASES); \
	for setting in $(VLLM_CONNECTORS) $(VLLM_CONNECTORS_$*); do cases "$$setting" "{$$setting}" $(N) 3; done

parity-vllm-ranks-%:
	@$(VLLM_CASES); \
	cases "data-parallel ranks" '{"data_parallel_size":-1}' $(N) 3; \
	cases "data-parallel ranks with priorities" '{"data_parallel_size":-1,"policy":"priority"}' $(N) 3

parity-vllm-windows-%:
	@$(VLLM_CASES); cases "sliding windows" '{"sliding_window":-1}' $(N) 3

parity-vllm-all: parity-vllm-connectors parity-vllm-engine

parity-sglang: ## compare N random workloads with SGLang's scheduler, in both of its loops (Python 3.11, 6.5 GB; skipped without it)
	@tools/sglangoracle/run --python || exit 0; $(MAKE) --no-print-directory parity-sglang-all

# Two settings run at once.
parity-sglang-all:
	$(GO) build -o bin/replay ./cmd/replay
	@$(MAKE) --no-print-directory --jobs=2 --output-sync parity-sglang-cases $(patsubst %,parity-sglang-set-%,$(SGLANG_NUMBERS))
	echo "== SGLang, what it publishes of its cache"; rm -f bin/sglang-published.jsonl
	SGLANG_ORACLE_S=3600 tools/sglangoracle/run --parity $(SGLANG_EACH) --seed 2001 --set '{"decode_log_interval":3}' --events \
	  --record bin/sglang-published.jsonl
	SGLANG_CASES=$(abspath bin/sglang-published.jsonl) $(GO) test ./scheduler/sglang -run TestEqualsSGLang -count 1 -v | tail -4
	test ! -e "$(MOONCAKE)" || for pool in '"page_size":16,"num_gpu_blocks":65536' '"page_size":64,"num_gpu_blocks":4096' \
	  '"page_size":16,"num_gpu_blocks":16384,"schedule_policy":"lpm"'; do \
	  echo "== SGLang, 3,000 rows of Mooncake, $$pool"; \
	  SGLANG_ORACLE_S=3600 tools/sglangoracle/run --trace $(MOONCAKE) --limit 3000 --set "{$$pool}" --replay bin/replay || exit 1; \
	done

parity-sglang-cases:
	SGLANG_ORACLE_S=7200 tools/sglangoracle/run --parity $(N) --seed $(SEED) --replay bin/replay
	tools/sglangoracle/run --cases testdata/sglang/cases.jsonl --replay bin/replay

parity-sglang-set-%:
	@echo "== SGLang, "$(word $*,$(SGLANG_SETS)); \
	SGLANG_ORACLE_S=3600 tools/sglangoracle/run --parity $(SGLANG_EACH) --seed 1001 --set {$(word $*,$(SGLANG_SETS))} --replay bin/replay

parity-hpa: ## compare scaler: hpa with the HPA controller of Kubernetes on N random clusters from SEED (builds k8s.io/kubernetes: minutes, network)
	GOWORK=off $(GO) build -C tools/hpaoracle -o $(abspath bin/hpaoracle) .
	$(GO) run ./tools/parityscaler -oracle bin/hpaoracle -n $(N) -seed $(SEED)

parity-keda: ## compare scaler: keda with the executor and fallback of KEDA and with the HPA controller
	GOWORK=off $(GO) build -C tools/hpaoracle -o $(abspath bin/kedaoracle) ./keda
	$(GO) run ./tools/parityscaler -kind keda -oracle bin/kedaoracle -n $(N) -seed $(SEED)

parity-planner: ## compare scaler: dynamo-planner with the planner of Dynamo on replays of three traces (minutes; Python of .venv; skipped without it)
	$(GO) run ./tools/parityplanner -python $(PLANNER_PYTHON)

launch: ## check the commands of replay plan --emit with the argument parsers of vLLM, SGLang, their routers and Dynamo (Python 3.10 to 3.13; skipped without it)
	@tools/launchoracle/run --python || exit 0; tools/launchoracle/run

real-vllm: ## load, record, calibrate to and validate vLLM's server on the CPU (Python 3.12, 7 GB, some minutes; skipped without Python)
	tools/realvllm/loop

ledger: ## check that the parts of each request of each golden case add up to its latency
	$(GO) test -count=1 -v -run 'Ledger' ./report/ledger

browser: ## test the pages of replay report --html, of replay ui and of the site in a browser
	$(GO) test -count=1 -timeout 20m -run 'Browser' ./report/html -browser -gallery $(abspath bin/site/gallery) -v $(if $(AXE),-axe $(abspath $(AXE)))
	$(GO) test -count=1 -run 'Browser' ./cmd/replay/ui -browser -v $(if $(AXE),-axe $(abspath $(AXE)))
	test ! -e bin/site || $(GO) test -count=1 -run 'Browser' ./tools/site -browser $(abspath bin/site) -v $(if $(AXE),-axe $(abspath $(AXE)))
	REPLAY_LONG=1 $(GO) test -count=1 -run TestPage ./cmd/explorer -browser -v

screenshots: ## save pictures of the pages and the explorer in four widths, light and dark, in bin/screenshots (with the gallery after make docs-site)
	mkdir -p bin/screenshots
	$(GO) test -count=1 -timeout 20m -run 'TestBrowser$$' ./report/html -browser -gallery $(abspath bin/site/gallery) -screenshots $(abspath bin/screenshots)
	REPLAY_LONG=1 $(GO) test -count=1 -run 'TestPage/browser' ./cmd/explorer -screenshots $(abspath bin/screenshots)

picture: ## draw docs/plan.png, the page of the plan in README, with Chromium
	$(GO) run ./cmd/replay plan testdata/traces/chat-hour.jsonl --speedup 16 --slo p99:ttft=1s,p99:itl=50ms --gpu h100 --model llama-3.1-8b --front=false --overwrite --out bin/plan.html > /dev/null
	chromium --headless --no-sandbox --hide-scrollbars --virtual-time-budget=3000 --window-size=1200,612 --screenshot=docs/plan.png file://$(abspath bin/plan.html)

plancheck: ## compare the search of replay plan with plans of every choice on 40 questions (15 minutes)
	$(GO) run ./tools/plancheck

plan-calibration: ## compare plans with a confidence of 90 % with the simulated truth of 200 systems (15 minutes)
	$(GO) run ./tools/plancheck -calibrate 200

traces-bad: ## print the errors of each trace reader for bad rows and bad files
	$(GO) test ./loadgen/formats/registry -run 'TestBadRows|TestBadFiles|TestSkipBadHasABound' -v

bench-traces: ## measure the speed of replay traces inspect and replay generate
	$(GO) test ./loadgen/formats/inspect ./loadgen/generate -run '^$$' -bench . -benchmem

accuracy: ## replay the measured servers of the optional data and published ones (SAMPLES=silicon_sample.csv), compare rankings with aiconfigurator if it is installed, and write docs/accuracy.md and internal/accuracy
	$(GO) run ./tools/accuracy -write docs/accuracy.md
	$(GO) run ./tools/judge -samples '$(SAMPLES)' -write docs/accuracy.md
	$(GO) run ./tools/aiconf -aiconfigurator '$(or $(AICONFIGURATOR),aiconfigurator)' -write internal/accuracy/tables.txt

online-accuracy: ## compare replays in real time with the same replays on the logical clock (requires an idle machine)
	$(GO) run ./tools/onlineaccuracy

online-soak: ## run 10,000 concurrent requests in the mocker, of which three in ten are cancelled at random times
	$(GO) test ./live/mocker -run TestManyConsumers -count 1 -v -soak

worker-signals: ## measure the shutdown of a worker against its time limits (requires an idle machine)
	$(GO) test ./live/engine -run TestSignalsToProcesses -count 1 -v -clocked

online-runs: ## run 1,000 short replays in real time under the race detector
	$(GO) test -race ./replay/online -run TestManyRuns -count 1 -v -runs 1000

kv-snapshot: ## measure a snapshot of 89,700 KV blocks, kill 50 subscribers under load, and publish to a subscriber that never reads
	$(GO) test ./live/kvevents -run 'TestLargeSnapshot|TestKilledSubscriber' -count 1 -timeout 30m -v -kv-snapshot
	$(GO) test ./live/kvevents -run TestStalledConsumerCostsNothing -count 1 -v -kv-tee

kv-interop: ## test KV events against libzmq and vLLM's classes, which are installed into bin/pyzmq (two wheels of 400 MB, deleted afterwards)
	test -x bin/pyzmq/bin/python || python3 -m venv bin/pyzmq
	bin/pyzmq/bin/python -c 'import zmq, msgspec' 2> /dev/null || bin/pyzmq/bin/python -m pip install -q pyzmq msgspec
	for r in 0.19.1 0.33.0; do test -s bin/pyzmq/$$r.py || { \
	  bin/pyzmq/bin/python -m pip download -q --no-deps --only-binary :all: -d bin/pyzmq/$$r vllm==$$r && \
	  bin/pyzmq/bin/python -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("vllm/distributed/kv_events.py"))' \
	    bin/pyzmq/$$r/*.whl > bin/pyzmq/$$r.py && rm -r bin/pyzmq/$$r; } || exit 1; done
	REPLAY_PYTHON=$(abspath bin/pyzmq/bin/python) $(GO) test ./live/kvevents/... -run 'Libzmq|Other' -count 1 -v
	REPLAY_PYTHON=$(abspath bin/pyzmq/bin/python) REPLAY_VLLM_EVENTS=$(abspath bin/pyzmq) $(GO) test ./live/cmd/replay-live -run 'VLLMClasses' -count 1 -v

cluster-faults: ## kill, pause and disconnect workers, etcd and NATS, and measure the effects on callers
	$(GO) test ./live/drt -run Fault -count 1 -timeout 10m -v -faults
	$(GO) test ./live/cmd/replay-live -run 'TestClusterFault|TestStandingLong' -count 1 -timeout 15m -v -full-cluster

cluster-soak: ## run 2,000 streams on 4 worker processes for a minute, and kill a worker every 10 s
	$(GO) test ./live/cmd/replay-live -run TestClusterSoak -count 1 -timeout 15m -v -full-cluster

cluster-overload: ## send 4,000 requests, 2,000 at a time, to two workers and a frontend, three times
	$(GO) test ./live/cmd/replay-live -run TestOverloadedFleetLong -count 1 -v -full-cluster

fleet-soak: ## run a fleet with 1,000 streams under random faults for ten minutes: killed and stopped processes, broken connections, restarts of etcd and NATS, full disks
	$(GO) test ./live/cmd/replay-live -run TestFleetSoak -count 1 -v -timeout 20m -fleet-soak $(SOAK)

malformed: ## send 50,000 malformed requests to vllm, sglang and frontend
	$(GO) test ./live/cmd/replay-live -run TestMalformedRequests -count 1 -v -timeout 20m -malformed 50000

cluster-accuracy: ## compare a replay on worker processes with the same replay on the logical clock
	$(GO) test ./live/cmd/replay-live -run TestClusterAccuracy -count 1 -timeout 15m -v -full-cluster

frontend-load: ## load a frontend with 10,000 idle connections, slow senders and large bodies
	$(GO) test ./live/frontend -run TestHeavyLoad -count 1 -v -load

vllm-api: ## compare the answers of live/openai with vLLM's server at VLLM_SERVER (host:port; model tiny, --max-model-len 512, a chat template)
	$(GO) test ./live/openai -run TestVLLM -count 1 -v -vllm-server "$(VLLM_SERVER)"

gateways: ## compare the policies of vllm-router, sglang-router and smg with the programs, and send requests through gateways to fleets of servers (Python 3.10; installed into bin/gateways; nginx and haproxy on the PATH; skipped without them)
	@for p in vllm-router==0.1.17 sglang-router==0.3.2 smg==1.13.0 "litellm[proxy]"; do n=$${p%%[=[]*}; d=bin/gateways/$$n; test -x $$d/bin/$$n || \
	  { $(PYTHON3) -m venv $$d && $$d/bin/pip install -q "$$p"; } || { rm -rf $$d; echo "gateways: skipped: $$p cannot be installed"; }; done
	test ! -x bin/gateways/vllm-router/bin/vllm-router || $(GO) test ./live/cmd/replay-live -run TestVLLMRouter -count 1 -v -gateways "$(CURDIR)/bin/gateways/vllm-router/bin"
	$(GO) build -o bin/replay-live ./live/cmd/replay-live
	$(GO) run ./tools/gateways -n $(GATEWAY_REQUESTS) -seeds $(GATEWAY_SEEDS)

# The server is vllm serve MODEL --served-model-name tiny --block-size 128 --num-gpu-blocks-override 9 --max-model-len 512
# --max-num-batched-tokens 256.
vllm-twin: ## compare the metrics, paths and errors of live/vllm with vLLM's server at VLLM_SERVER (host:port)
	$(GO) test ./live/vllm -run TestMetricsEqualVLLM -count 1 -v -vllm-server "$(VLLM_SERVER)"
	$(GO) test ./live/vllm -run TestPathsEqualVLLM -count 1 -v -vllm-server "$(VLLM_SERVER)"

interop: ## test callers and workers against the Python package of Dynamo
	.ci/interop $(PEERS)

bench: ## run the benchmarks COUNT times for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./tools/bench/...

bench-live: ## measure the processor time of tokens and requests on servers without a model, and compare with FastAPI and the mock server of guidellm (Python 3.10; installed into bin/bench-live)
	test -x bin/bench-live/bin/guidellm || { $(PYTHON3) -m venv bin/bench-live && bin/bench-live/bin/pip install -q fastapi uvicorn guidellm; } || echo "bench-live: without Python" >&2
	python=$$PWD/bin/bench-live/bin/python; $(GO) test ./live/cmd/replay-live/bench -run TestBench -count 1 -timeout 1h -v -args -measure $$(test -x bin/bench-live/bin/guidellm && echo -python $$python)

bench-peer: ## compare speed and memory with the reference (ten minutes; docs/accuracy.md)
	$(GO) run ./tools/benchpeer
	$(GO) run ./tools/aisimulate

aisimulate: ## replay the conversation trace with AISimulate and with replay, and update internal/accuracy/tables.txt (skipped without AISimulate)
	$(GO) run ./tools/aisimulate -write internal/accuracy/tables.txt

bench-outputs: ## measure the cost of the output files of a run
	$(GO) run ./tools/benchpeer outputs

bench-scale: ## replay 44 million requests on 256 workers and 10 million on 1,000, and compare streamed with kept requests on 10 million (8 GiB)
	$(GO) run ./tools/benchscale -requests $(SCALE)
	$(GO) run ./tools/benchscale -equal $(EQUAL)

bench-sweep: ## measure sweeps of 200 cells on one core and on two, and the overhead of a cell (requires an idle machine)
	$(GO) run ./tools/benchpeer sweep

docs: ## run every command of README and docs, and compare with the output in the text
	$(GO) test -count=1 -v -run 'TestDocs|TestWorkflow|TestExitCodes' ./cmd/replay/docs ./internal/cmd/cli
	$(GO) test -count=1 -v ./docs

docs-site: ## build the site of docs in bin/site, and check its links (Python 3.11)
	$(GO) run ./tools/site

profile: ## write a CPU profile of each benchmark row that matches ROW to PROFILES
	$(GO) test ./tools/bench -run '^$$' -bench Replay -benchtime 5s -rows '$(ROW)' -profiles '$(abspath $(PROFILES))'

mutants: ## run mutation tests of schedulers, router, harness, formats and calibration (CONTRIBUTING.md)
	.ci/mutants

lint: ## check format, vet, staticcheck, prose, the workflows and examples/stack
	.ci/run lint

api: ## compare the stable Go API with testdata/api (docs/api.md)
	.ci/run api

generate: ## update generated files, and fail if they were out of date
	.ci/run generated

cover: ## print the test coverage of each function
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./... > /dev/null
	$(GO) tool cover -func=cover.out

ci: ## run all steps of continuous integration
	.ci/run

clean: ## remove the files that the other targets write
	rm -rf bin dist cover.out

.PHONY: parity-all parity-planner help mutants build wasm footprint wheel release release-twice test race fuzz golden golden-arm64 parity parity-vllm parity-vllm-all parity-vllm-engine parity-vllm-connectors parity-vllm-ranks parity-vllm-windows parity-sglang parity-sglang-all parity-sglang-cases freeze liveness ledger browser screenshots picture plancheck plan-calibration traces-bad bench-traces accuracy online-accuracy online-soak worker-signals online-runs kv-snapshot kv-interop cluster-faults cluster-soak cluster-overload fleet-soak malformed cluster-accuracy frontend-load gateways vllm-api vllm-twin interop launch bench bench-live bench-peer aisimulate bench-outputs bench-scale bench-sweep docs docs-site profile lint api generate cover ci clean
