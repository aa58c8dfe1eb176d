# Every target runs on a fresh machine with Rust (rustup), Go, a C compiler and git, and says what it does.
# CARGO_TARGET_DIR is honoured throughout.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
XTASK := $(TARGET_DIR)/debug/xtask

# The programs of the demo, and of nothing else: the demo should not have to compile the generators and all tests.
DEMO_PACKAGES := --package vmpool-controller --package vmpool-simulator --package vmpool-e2e

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: xtask ## Watch a pool live on a real control plane; ONCE=1 runs the story once and ends
	@echo "==> The control plane: etcd, kube-apiserver, kube-controller-manager, kubectl (minutes the first time, kept in $(TARGET_DIR)/tools)"
	@$(XTASK) tools control-plane
	@echo "==> The controller, the platform simulator and the demo"
	cargo build --locked $(DEMO_PACKAGES) --bins
	@echo "==> The demo"
	@$(TARGET_DIR)/debug/demo

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
