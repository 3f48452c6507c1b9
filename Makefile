# make test is complete for anyone with Go and a C compiler (race detector).
# .ci/run runs it and everything else that decides about a change.

GO       ?= go
TOOL      = $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 60s
BENCH    ?= .
BENCHTIME ?= 1s
PACKAGES ?= ./...
ARGS     ?=
# Discovery of Kubernetes and Consul and the SDKs of clouds double the time of a build;
# MCP and the kubelet's API add 2 MB each: make build TAGS=kubernetes_sd,consul_sd,clouds,mcp,pod_resources
TAGS     ?=

VERSION  ?= $(patsubst v%,%,$(shell git describe --tags --always --dirty 2>/dev/null || echo unknown))
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BRANCH   ?= $(shell git rev-parse --abbrev-ref HEAD 2>/dev/null || echo unknown)

version_pkg = github.com/prometheus/common/version
LDFLAGS = -s -w \
	-X $(version_pkg).Version=$(VERSION) \
	-X $(version_pkg).Revision=$(REVISION) \
	-X $(version_pkg).Branch=$(BRANCH)

# The version is linked in above, so that a build needs no repository around it.
export GOFLAGS += -buildvcs=false
# The binding of the driver's library calls functions that are deprecated there.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

.PHONY: all run demo test simulations hostile e2e peers otlp lint vuln rules boards proof incidents page real real-smoke gpu-real gpu-real-folder deploy cluster site release stack generate bench fuzz build docker clean

all: test lint build

run: ## the daemon: make run ARGS='--config.file=examples/minimal.yml'
	$(GO) run . $(ARGS)

demo: ## the daemon against simulated servers
	$(GO) run . demo $(ARGS)

# A program with the race detector sleeps for a second at its end, unless it is told otherwise. The packages that wait longest
# begin first, so that all others run meanwhile, one more at a time than there are processors. The heap of a test is small:
# collected less often, it costs less. "make lint" vets, and "make simulations" repeats what -short shortens.
test: ## every test, with the race detector; minutes
	GORACE=atexit_sleep_ms=0 GOGC=400 $(GO) test -race -short -vet=off -timeout 10m -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) \
		./internal/app ./internal/fleet $$($(GO) list ./... | grep -v -e /internal/app$$ -e /internal/fleet$$)

simulations: ## what has a number of repetitions, in full and without the race detector
	$(GO) test -vet=off ./config ./internal/compare ./internal/health ./internal/recorder ./internal/series ./internal/workload/answers ./internal/workload/drift ./internal/workload/loadtest
	cd tools/lab && $(GO) test ./alertsim
	$(GO) test -vet=off -run TestConversationsAgainstTheSimulator ./internal/fleet

# 20 hostile endpoints among 200 stay for 75 s; INFERENCE_EXPORTER_HOSTILE_DURATION=10m for longer.
hostile: ## the program against hostile servers and with few resources of its own; minutes
	INFERENCE_EXPORTER_HOSTILE=1 $(GO) test -count=1 -timeout 30m ./internal/hostile
	INFERENCE_EXPORTER_HOSTILE=1 $(GO) test -count=1 -run TestThousandReloads ./internal/app

e2e: ## what must hold of every server: make e2e ENDPOINT=http://host:8000, or CONFIG=file.yml for keys and models
	@test -n '$(ENDPOINT)$(CONFIG)' || { echo 'give ENDPOINT=http://host:port or CONFIG=file.yml'; exit 2; }
	INFERENCE_EXPORTER_E2E_ENDPOINT='$(ENDPOINT)' INFERENCE_EXPORTER_E2E_CONFIG='$(abspath $(CONFIG))' \
		$(GO) test -run '^TestEndpoint$$' -count=1 -v -timeout 1h ./internal/e2e

peers: ## other tools on the same streams, into docs/comparison.md; installs them into .tools, which takes a while
	cd tools/lab/peers && $(GO) run . $(ARGS)

otlp: ## what the exporter pushes, against the receiver of the OpenTelemetry Collector
	cd tools/otlp && $(GO) test -count=1 ./... $(ARGS)

# The tests of tools/cluster are vetted as they are built: that takes minutes.
lint: ## format and static checks
	@unformatted=$$($(TOOL) gofumpt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofumpt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) vet -tags mcp ./internal/web ./internal/app
	$(TOOL) staticcheck -tags mcp ./internal/web
	for module in lab deploy release otlp; do (cd tools/$$module && $(GO) vet ./...) || exit 1; done

vuln: ## known vulnerabilities; needs the database on the network
	$(TOOL) govulncheck ./...

rules: ## the alert rules and their tests, by promtool; builds it the first time, which takes minutes
	tools/prometheus/check.sh

boards: ## what dashboards and rules ask for, and whom an incident notifies how often, by Prometheus' own code
	tools/prometheus/build.sh promtool
	cd tools/lab && PROMTOOL=$(CURDIR)/.tools/promtool $(GO) test ./dashgen ./alertsim/incidents ./incidents ./peers ./process ./real ./upstream

proof: ## every query of dashboards and rules against a real Prometheus that scrapes the exporter; builds it the first time
	tools/lab/prove/check.sh

incidents: ## incidents of many kinds with real processes, clocks, Prometheus and Alertmanager, half an hour; builds these the first time
	tools/lab/incidents/run.sh

page: ## the status page in a real Chromium
	tools/lab/browse/check.sh

# A server takes minutes and up to 6 GB of disk for its packages.
real: ## the exporter against real servers, installed from their packages: make real SERVERS=vllm,litellm
	cd tools/lab/real && $(GO) run . -servers '$(SERVERS)'

real-smoke: ## the part of it for CI: a gateway from its package, in front of simulated engines
	cd tools/lab/real && $(GO) run . -servers sglang-router -only 'detect|probe' -dry

# Compares what the exporter shows of a card with nvidia-smi, the driver's binding and bytes that a load moved, in about four minutes;
# without a card it says so. OUT is where the record goes, in the form of collector/testdata/h100.
gpu-real: ## what a real card allows to check; make gpu-real OUT=folder
	INFERENCE_EXPORTER_GPU_REAL='$(abspath $(or $(OUT),dist/gpu-record))' $(GO) test ./collector -run '^TestRealCard$$' -count=1 -v -timeout 8m

gpu-real-folder: ## the same for a machine without Go, as the folder dist/gpu-real with run.sh
	mkdir -p dist/gpu-real/testdata
	$(GO) test -c -trimpath -o dist/gpu-real/gpu-real.test ./collector
	cp -r collector/testdata/load dist/gpu-real/testdata
	mv dist/gpu-real/testdata/load/run.sh dist/gpu-real

deploy: ## Kubernetes manifests, Helm chart, systemd units and compose file
	cd tools/deploy && $(GO) test -tags '$(TAGS)' ./...

cluster: ## chart, manifests and discovery against a real Kubernetes API; builds it the first time, ten minutes
	tools/cluster/check.sh $(ARGS)

site: ## the documentation as a site, in dist/site; installs mkdocs the first time
	tools/site/check.sh

release: ## a release without publishing it; builds goreleaser the first time, which takes minutes
	tools/release/check.sh

stack: ## the demo with a real Prometheus and the rules; builds it the first time, which takes minutes
	examples/stack/run.sh

generate: ## references in docs/, rules and dashboards from the code; a test compares them too
	$(GO) test ./collector ./config ./internal/page ./prober/api ./internal/app \
		-run 'TestReference|TestSchemaFile|TestBadFiles|TestNamesAreFrozen|TestSeriesOfAnEndpoint|TestMetricsGolden' -count=1 -update
	$(GO) test ./internal/explain ./internal/fleet -run 'TestReference|TestFaultsAreDocumented' -count=1 -update
	$(GO) test ./alerts -run 'TestFilesAreCurrent|TestReference' -count=1 -update
	cd tools/lab/dashgen && $(GO) run .
	cd tools/deploy && $(GO) test . -run TestGenerated -count=1 -update
	cd tools/release && $(GO) run . licences ../../docs/licences.md
	cd tools/lab/real && $(GO) run . -document

bench: ## benchmarks: make bench BENCH=Framing BENCHTIME=3s
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -timeout 1h $(PACKAGES) $(ARGS)

# The go command now and then reports the end of its own fuzzing time as a
# failure (golang.org/issue/75804, mended in Go 1.27); an input that fails is
# always written to a file as well.
fuzz: ## every fuzz target, FUZZTIME each
	@set -e; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	for package in $$($(GO) list ./...); do \
		found=$$($(GO) test -list '^Fuzz' $$package); \
		for target in $$(echo "$$found" | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			if $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package >"$$log" 2>&1; then \
				tail -n 3 "$$log"; \
			elif grep -q '^    context deadline exceeded$$' "$$log" && ! grep -q 'Failing input' "$$log"; then \
				tail -n 6 "$$log"; echo "taken for the end of the fuzzing time"; \
			else \
				cat "$$log"; exit 1; \
			fi; \
		done; \
	done

build: ## the program, with its version; CGO_ENABLED=0 for a static one
	$(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o inference_exporter .

docker: ## the container image
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) --build-arg BRANCH=$(BRANCH) \
		-t inference_exporter:$(VERSION) .

clean:
	rm -rf inference_exporter dist coverage.out
	$(GO) clean -testcache
