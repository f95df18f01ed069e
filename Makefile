# Everything goes through the go command; this file only names what is done often.

GO       ?= go
# Not a tool of go.mod: its requirements would become this module's.
GOLANGCI ?= $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
DATA_DIR ?= weir-data
# How long each scenario of `make torture` runs, and the seed of its chance; 0: any.
TORTURE  ?= 60s
SEED     ?= 0
# Packages that share memory between goroutines: they are tested with the race detector too.
RACE     := ./host/... ./policies/cel ./server ./server/admission/... ./server/apply ./server/audit ./server/auth/... ./server/controllers \
            ./server/endpoints ./server/extension/... ./server/filters ./server/h2 ./server/loader ./server/recording ./server/registry ./server/storage/...

.DEFAULT_GOAL := help
.PHONY: help run demo build test toolchains race swaps bench-host matrix-golden admission-golden bench hammer bench-policy bench-storage bench-peer torture check generate tidy format lint vet clean-status

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## serve on an embedded etcd, on loopback; prints the URL and KUBECONFIG
	./bin/weir serve --data-dir $(DATA_DIR)

demo: ## show the main job from end to end; ends by itself
	./examples/deployment/demo.sh

build: ## build bin/weir
	$(GO) build -ldflags='-s -w' -o bin/weir ./server/cmd/weir

test: toolchains ## test everything
	$(GO) test -timeout 20m ./...

toolchains: ## install what guests in C, Rust and AssemblyScript are built with, if it is missing and apt-get is there
	./sdk/toolchains.sh

race: ## test what is concurrent with the race detector
	$(GO) test -race -timeout 20m $(RACE)

matrix-golden: ## keep a kube-apiserver's answers: WEIR_MATRIX_URL, _CA (a file), _TOKEN, _ETCD (its endpoint), _CACHE=false with --watch-cache=false
	@test -n "$(WEIR_MATRIX_URL)" || { echo "matrix-golden: set WEIR_MATRIX_URL, WEIR_MATRIX_CA, WEIR_MATRIX_TOKEN and WEIR_MATRIX_ETCD" >&2; exit 1; }
	$(GO) test -count=1 -run '^TestMatrix$$' ./server/semantics

admission-golden: ## keep a kube-apiserver's answers to policies: WEIR_MATRIX_URL, _CA (a file), _TOKEN; nothing may be in it yet
	@test -n "$(WEIR_MATRIX_URL)" || { echo "admission-golden: set WEIR_MATRIX_URL, WEIR_MATRIX_CA and WEIR_MATRIX_TOKEN" >&2; exit 1; }
	$(GO) test -count=1 -run '^TestGolden$$' ./server/servertest/admission

bench: ## run the benchmarks; BENCH=regexp chooses
	$(GO) test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem ./...

bench-host: ## measure calls of guests, each beside the engine's bare floor; BENCH=regexp chooses
	$(GO) test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem ./host ./host/hosttest

swaps: ## replace a module SWAPS=10000 times under load and see what is left behind
	$(GO) test -count=1 -v -timeout 0 -run '^TestSwaps$$' ./host/hosttest -swaps $(or $(SWAPS),10000)

torture: ## break what the server stands on and check all it says; TORTURE=60s each scenario, SEED=, RUN=regexp
	$(GO) test -count=1 -v -timeout 0 -run 'TestTorture/$(or $(RUN),.)' ./server/servertest/torture -torture $(TORTURE) -seed $(SEED)

hammer: ## replace a policy of each engine 1,000 times under eight writers, with the race detector; ROUNDS= says how often
	$(GO) test -race -count=1 -v -timeout 60m -run '^TestHammer$$' ./server/servertest/admission -rounds $(or $(ROUNDS),1000)

bench-policy: ## twenty rules on a Deployment, from bytes to verdict, beside cel-go on maps and kube-apiserver's evaluator
	$(GO) test -run '^$$' -bench '^BenchmarkPolicy$$' -benchmem ./policies/cel

bench-storage: ## a cache of PODS="10000 150000" objects: upstream's three benchmarks beside upstream's cacher, and fan-out; BENCHTIME=1s
	for pods in $(or $(PODS),10000 150000); do \
		$(GO) test -run '^$$' -bench '^BenchmarkStore' -benchmem -benchtime $(or $(BENCHTIME),1s) -timeout 0 \
			./server/storage/storagetest/upstream -upstream.pods $$pods -upstream.nodes $$((pods > 15000 ? pods / 30 : 500)) || exit; \
		$(GO) test -run '^$$' -bench "^BenchmarkFanOut$$/^objects=$$pods$$/" -benchmem -benchtime $(or $(BENCHTIME),1s) -timeout 0 \
			./server/storage/cacher || exit; \
	done

bench-peer: ## measure beside kube-apiserver, which is built from its modules the first time; ARGS="-rounds 3" and so on
	$(GO) run ./server/servertest/peer $(ARGS)

check: generate tidy format vet lint test race clean-status ## all that a change must pass; leaves git status clean

generate: ## make generated files again
	$(GO) generate ./...

lint: ## golangci-lint, with the layers
	$(GOLANGCI) run ./...

tidy:
	$(GO) mod tidy

format:
	gofmt -l -w $$(git ls-files '*.go')

vet:
	$(GO) vet ./...

clean-status:
	@git diff --exit-code --stat && test -z "$$(git status --porcelain)" || { git status --short; echo "make check changed files: commit them" >&2; exit 1; }
