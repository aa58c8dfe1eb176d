# Every target runs on a fresh machine with Rust (rustup), Go, a C compiler and git, and says what it does.
# CARGO_TARGET_DIR is honoured throughout.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
XTASK := $(TARGET_DIR)/debug/xtask
PLAYGROUND := $(TARGET_DIR)/debug/playground

# The programs of demo and playground, and of nothing else: they should not have to compile the generators and all tests.
DEMO_PACKAGES := --package vmpool-controller --package vmpool-simulator --package vmpool-e2e

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: xtask ## Watch a pool live on a real control plane; ONCE=1 runs the story once and ends
	@echo "==> The control plane: etcd, kube-apiserver, kube-controller-manager, kubectl, helm (minutes the first time, kept in $(TARGET_DIR)/tools)"
	@$(XTASK) tools
	@echo "==> The controller, the platform simulator and the demo"
	cargo build --locked $(DEMO_PACKAGES) --bins
	@echo "==> The demo"
	@$(TARGET_DIR)/debug/demo

.PHONY: bench
bench: xtask ## Measure speed, cost and quiet; MEMBERS=10000, POOLS=100, FAILOVER=1, HELP=1 for all variables
	@echo "==> The control plane: etcd, kube-apiserver, kube-controller-manager, helm (minutes the first time, kept in $(TARGET_DIR)/tools)"
	@$(XTASK) tools
	@echo "==> The controller, the platform simulator and the benchmark, optimized"
	cargo build --locked --release --package vmpool-controller --package vmpool-simulator
	cargo build --locked --release --package vmpool-e2e --bin bench
	@echo "==> The benchmark"
	@$(TARGET_DIR)/release/bench $(if $(HELP),--help)

.PHONY: up
up: xtask ## Leave the demo's programs running in the background, to play with; docs/playground.md is a tour
	@echo "==> Control plane and helm (minutes the first time, kept in $(TARGET_DIR)/tools)"
	@$(XTASK) tools
	@echo "==> The controller, the platform simulator and the playground"
	cargo build --locked $(DEMO_PACKAGES) --bins
	@echo "==> The playground"
	@$(PLAYGROUND) up

.PHONY: down
down: ## Stop what make up started, and remove its directory
	@if [ -x $(PLAYGROUND) ]; then $(PLAYGROUND) down; else echo "Nothing is up."; fi

.PHONY: status
status: ## Say whether the playground is up, and which processes it has
	@if [ -x $(PLAYGROUND) ]; then $(PLAYGROUND) status; else echo "Nothing is up."; fi

.PHONY: test
test: xtask ## Run all that CI runs: format, lints, docs, generated files, chart, and every test
	@$(XTASK) verify

.PHONY: verify
verify: test ## The same as test

.PHONY: lint
lint: preflight ## Format and lints only
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: generate
generate: xtask ## Write what is generated from the CRDs: types, definitions, reference pages
	@$(XTASK) generate

.PHONY: tools
tools: xtask ## Build the Go programs that tests and demo run
	@$(XTASK) tools

.PHONY: audit
audit: preflight ## Licences, sources and known vulnerabilities of all dependencies; needs cargo-deny
	@cargo deny --version >/dev/null 2>&1 || { echo "error: missing cargo-deny (cargo install --locked cargo-deny)" >&2; exit 1; }
	cargo deny check

.PHONY: clean
clean: preflight ## Remove everything that was built, the tools too
	cargo clean

.PHONY: xtask
xtask: preflight
	@echo "==> The chores (cargo xtask)"
	cargo build --locked --package xtask

# One line for whatever is missing, instead of a failure in the middle of a build.
.PHONY: preflight
preflight:
	@missing=; \
	command -v cargo >/dev/null 2>&1 || missing="$$missing; Rust (install rustup, which then follows rust-toolchain.toml)"; \
	command -v cc >/dev/null 2>&1 || missing="$$missing; a C compiler (package gcc or clang)"; \
	command -v go >/dev/null 2>&1 || missing="$$missing; Go 1.26 or newer, on PATH"; \
	command -v git >/dev/null 2>&1 || missing="$$missing; git (package git)"; \
	if [ -n "$$missing" ]; then echo "error: missing$${missing#;}" >&2; exit 1; fi
