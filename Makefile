# Every target works on a new machine with Rust (rustup), Go, a C compiler and git, and prints a missing requirement.
# All targets use CARGO_TARGET_DIR, if it is set.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
XTASK := $(TARGET_DIR)/debug/xtask
PLAYGROUND := $(TARGET_DIR)/debug/playground

# The programs of the chart, the platform simulator, and those that start them. The programs are selected from the whole workspace,
# because a selection of packages would select other features of their dependencies, and `make test` would compile those again.
BUILD := cargo build --locked --workspace
DEMO := --bin vmpool-controller --bin vmpool-webhook --bin vmpool-apiserver --bin vmpool-simulator --bin kubectl-vmpool --bin demo
CHART := --bin vmpool-controller --bin vmpool-webhook --bin vmpool-apiserver --bin vmpool-simulator --bin kubectl-vmpool --bin playground

# The programs of the control plane for demo and playground. With KUBEBUILDER_ASSETS, or if they are on PATH, they are those of this
# host; otherwise they are built. Tests use built ones only.
DEMO_TOOLS = VMPOOL_TOOLS="$${VMPOOL_TOOLS:-$(abspath $(TARGET_DIR))/tools/demo/bin}"

# The test targets with scenarios on an embedded control plane.
SCENARIOS := --package vmpool-e2e --test scenarios --test kubevirt --test platforms --test timed

# Go programs and Rust programs are built side by side: either build has long phases that use one processor only. Without
# MAKEFLAGS, cargo does not take the two jobs of make for the number of processors.
BUILD_ASIDE := MAKEFLAGS= MFLAGS= $(BUILD)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: xtask ## Show a pool on a real control plane; with ONCE=1 the demo runs once and exits; PLATFORM=kubevirt
	@echo "==> etcd, kube-apiserver, kube-controller-manager, kubectl; the programs of vmpool, the platform simulator, the demo"
	@echo "    (minutes the first time; the Go programs are kept in $(TARGET_DIR)/tools)"
	@$(MAKE) --no-print-directory --jobs=2 demo-control-plane demo-programs
	@echo "==> The demo"
	@$(DEMO_TOOLS) $(TARGET_DIR)/debug/demo

.PHONY: scenario
scenario: xtask ## Run the scenarios whose test names contain NAME, with their logs
	@[ -n "$(NAME)" ] || { echo "error: missing NAME, for example NAME=scaling::" >&2; exit 1; }
	@$(XTASK) tools control-plane
	@$(XTASK) tools helm
	cargo build --locked --workspace --bins
	@cargo test --locked --quiet $(SCENARIOS) -- --list $(NAME) | grep -q ': test$$' || { \
		echo "error: the name of no scenario contains $(NAME)" >&2; exit 1; }
	cargo test --locked $(SCENARIOS) -- --nocapture $(NAME)

.PHONY: demo-control-plane
demo-control-plane:
	@$(XTASK) tools demo

.PHONY: demo-programs
demo-programs:
	$(BUILD_ASIDE) $(DEMO)

.PHONY: plugin
plugin: preflight ## Build the kubectl plugin, optimized, and install it in DIR (default ~/.cargo/bin)
	cargo install --locked --profile optimized --path cli --root "$(or $(patsubst %/bin,%,$(DIR)),$(or $(CARGO_HOME),$(HOME)/.cargo))"
	@echo "Try: kubectl vmpool --help"

.PHONY: krew
krew: preflight xtask ## Build the archive and the krew manifest of the kubectl plugin, in target/krew
	@$(XTASK) release plugin --out "$(TARGET_DIR)/krew"

.PHONY: release
release: preflight xtask ## Make the files of a release, in target/release-artifacts; publishes nothing
	@$(XTASK) release

.PHONY: bench
bench: xtask ## Measure speed, resource usage and requests; MACHINES=10000, PLATFORM=kubevirt TYPES=true, POOLS=100, IMAGES=1000, HELP=1 for all variables
	@echo "==> The control plane: etcd, kube-apiserver, kube-controller-manager, kubectl (minutes the first time, kept in $(TARGET_DIR)/tools)"
	@$(XTASK) tools control-plane
	@$(if $(IMAGES)$(LIFE_CYCLE),$(XTASK) tools helm)
	@echo "==> The controller as it ships (ten minutes the first time), the platform simulator and the benchmark"
	cargo build --locked --release --package vmpool-controller
	cargo build --locked --profile optimized --package vmpool-simulator --package vmpool-bench
	@echo "==> The benchmark"
	@VMPOOL_CONTROLLER="$${VMPOOL_CONTROLLER:-$(TARGET_DIR)/release/vmpool-controller}" $(TARGET_DIR)/optimized/bench $(if $(HELP),--help)

.PHONY: e2e
e2e: xtask ## Core scenarios on another cluster; E2E_CLUSTER=embedded (default), node, kind, k3s or current
	@$(XTASK) tools $(if $(filter node,$(E2E_CLUSTER)),node,control-plane)
	@$(XTASK) tools helm
	cargo build --locked --workspace --bins
	@case "$${E2E_CLUSTER:-embedded}" in \
	embedded) set -x; cargo test --locked $(SCENARIOS) ;; \
	node) set -x; RUST_TEST_THREADS=1 cargo test --locked --package vmpool-e2e --test node_cluster --test node ;; \
	k3s) set -x; cargo run --locked --package vmpool-external-cluster --features k3s ;; \
	*) set -x; $(TARGET_DIR)/debug/external_cluster ;; \
	esac

.PHONY: faults
faults: preflight ## Run the real controller with injected faults on a model of the API server; SEEDS=10000, SEED=7, PLATFORM=kubevirt, EXHAUSTIVE=true, ONLY=rollout
	@echo "==> The controller and the API server model, optimized"
	cargo build --locked --profile optimized --package vmpool-explorer
	@echo "==> Fault schedules: each simulates some minutes in milliseconds"
	@$(TARGET_DIR)/optimized/faults

.PHONY: conformance
conformance: xtask ## Compare the API server model of make faults with a real API server; SEEDS=500, SEED=7
	@$(XTASK) tools control-plane
	SEEDS="$(or $(SEEDS),500)" cargo test --locked --package vmpool-e2e --test conformance -- --nocapture

.PHONY: crashes
crashes: xtask ## Kill every program at each of its requests, and interrupt every watch, on a real control plane; ONLY="rollout, restart: killed after DELETE"; PLATFORM=kubevirt ONLY="update, standby"
	@$(XTASK) tools control-plane
	@$(XTASK) tools helm
	cargo build --locked --workspace --bins
	@case "$${PLATFORM:-dvp}" in \
	kubevirt) set -x; VMPOOL_CRASHES=all VMPOOL_ONLY="$(ONLY)" cargo test --locked --package vmpool-e2e --test kubevirt --test crashes -- --nocapture crashes:: case_2_kubevirt ;; \
	*) set -x; VMPOOL_CRASHES=all VMPOOL_ONLY="$(ONLY)" cargo test --locked --package vmpool-e2e --test crashes -- --nocapture ;; \
	esac

.PHONY: fields
fields: xtask ## Write unusual values to every field of the pools' schemas, on a real control plane; PLATFORM=dvp or kubevirt (default: both)
	@case "$(PLATFORM)" in ""|dvp|kubevirt) ;; *) echo "error: PLATFORM is dvp or kubevirt, or empty for both" >&2; exit 1 ;; esac
	@$(XTASK) tools control-plane
	@$(XTASK) tools helm
	cargo build --locked --workspace --bins
	VMPOOL_UNUSUAL_VALUES=all cargo test --locked --package vmpool-e2e --test platforms -- --nocapture \
		$(addprefix every_field_is_refused_with_a_reason_or_applied::case_,$(or $(filter %$(PLATFORM),1_dvp 2_kubevirt),none))

.PHONY: integration
integration: xtask ## Run another program with vmpool, and check that both work; NAME=prometheus, cert-manager, keda or kubernetes
	@[ -n "$(NAME)" ] || { echo "error: missing NAME: prometheus, cert-manager, keda or kubernetes" >&2; exit 1; }
	@$(XTASK) integration $(NAME)

.PHONY: soak
soak: xtask ## Run random operations and faults on a real control plane, and measure resource usage; MINUTES=10, SEED=7, PLATFORM=kubevirt
	@echo "==> The control plane: etcd, kube-apiserver, kube-controller-manager, kubectl, helm (minutes the first time, kept in $(TARGET_DIR)/tools)"
	@$(XTASK) tools control-plane
	@$(XTASK) tools helm
	@echo "==> The project's programs, the platform simulator and the soak test"
	cargo build --locked --workspace --bins
	@echo "==> The soak test"
	@$(TARGET_DIR)/debug/soak

.PHONY: fuzz
fuzz: preflight ## Fuzz a decoder with libFuzzer, on nightly Rust; TARGET=review, SECONDS=600; without TARGET all, one after the other
	@rustup run nightly rustc --version >/dev/null 2>&1 || { echo "error: missing nightly Rust (rustup toolchain install nightly)" >&2; exit 1; }
	@command -v c++ >/dev/null 2>&1 || { echo "error: missing a C++ compiler (package g++ or clang)" >&2; exit 1; }
	@echo "==> The samples with which fuzzing begins"
	cargo run --locked --quiet --package vmpool-fuzz-entries --example fuzz-seeds -- fuzz/corpus
	@sh fuzz/run.sh "$(TARGET)" "$(or $(SECONDS),60)"

.PHONY: mutations
mutations: xtask ## Remove one guard at a time from the code, and check that a test detects it; ONLY=allocations, SEEDS=600
	@$(XTASK) mutations

.PHONY: up
up: xtask ## Start the playground: a control plane and all programs in the background; PLATFORM=all adds KubeVirt, disk images and instance types; docs/playground.md is a tour
	@echo "==> etcd, kube-apiserver, kube-controller-manager, kubectl; the project's programs, the platform simulator, the playground"
	@echo "    (minutes the first time; the Go programs are kept in $(TARGET_DIR)/tools)"
	@$(MAKE) --no-print-directory --jobs=2 demo-control-plane playground-programs
	@echo "==> The playground"
	@$(DEMO_TOOLS) $(PLAYGROUND) up

.PHONY: playground-programs
playground-programs:
	$(BUILD_ASIDE) $(CHART)

.PHONY: down
down: ## Stop the playground, and remove its directory
	@if [ -x $(PLAYGROUND) ]; then $(PLAYGROUND) down; else echo "Nothing is up."; fi

.PHONY: status
status: ## Show whether the playground runs, and its processes
	@if [ -x $(PLAYGROUND) ]; then $(PLAYGROUND) status; else echo "Nothing is up."; fi

.PHONY: node-up
node-up: xtask ## Start a one-node cluster with the chart in the background; needs root on Linux
	@echo "==> Control plane, node, containerd and helm (minutes the first time, kept in $(TARGET_DIR)/tools)"
	@$(XTASK) tools node
	@echo "==> The programs of the chart, the platform simulator and the playground"
	$(BUILD) $(CHART) --bin pause
	@echo "==> The cluster"
	@$(PLAYGROUND) --node up

.PHONY: node-down
node-down: ## Stop the one-node cluster, and remove its directory
	@if [ -x $(PLAYGROUND) ]; then $(PLAYGROUND) --node down; else echo "Nothing is up."; fi

.PHONY: test
test: xtask ## Run the checks of CI: format, lints, docs, generated files, chart, and every test
	@$(XTASK) verify

.PHONY: verify
verify: test ## The same as test

.PHONY: lint
lint: xtask ## Format, hygiene, clippy and docs only
	@$(XTASK) verify format hygiene clippy docs

.PHONY: generate
generate: xtask ## Generate files from the CRDs: types, definitions, reference pages
	@$(XTASK) generate

.PHONY: tools
tools: xtask ## Build the Go programs for tests and demo
	@$(XTASK) tools

.PHONY: audit
audit: preflight ## Check licenses, sources and known vulnerabilities of all dependencies; needs cargo-deny
	@cargo deny --version >/dev/null 2>&1 || { echo "error: missing cargo-deny (cargo install --locked cargo-deny)" >&2; exit 1; }
	cargo deny check

.PHONY: sbom
sbom: xtask ## Write the software bill of materials of each program, as CycloneDX JSON, into target/sbom
	@$(XTASK) sbom

.PHONY: clean
clean: preflight ## Remove all build results, including the tools
	cargo clean

.PHONY: xtask
xtask: preflight
	@echo "==> The build tool (cargo xtask)"
	$(BUILD) --bin xtask

# One line for whatever is missing, instead of a failure in the middle of a build.
.PHONY: preflight
preflight:
	@missing=; \
	command -v cargo >/dev/null 2>&1 || missing="$$missing; Rust (install rustup, which then follows rust-toolchain.toml)"; \
	command -v cc >/dev/null 2>&1 || missing="$$missing; a C compiler (package gcc or clang)"; \
	command -v go >/dev/null 2>&1 || missing="$$missing; Go 1.26 or newer, on PATH"; \
	command -v git >/dev/null 2>&1 || missing="$$missing; git (package git)"; \
	if [ -n "$$missing" ]; then echo "error: missing$${missing#;}" >&2; exit 1; fi
