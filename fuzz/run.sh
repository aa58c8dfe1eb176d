#!/bin/sh
# Builds the fuzz targets as cargo-fuzz does, and runs one of them, or all: run.sh [TARGET] SECONDS. cargo-fuzz itself works,
# too, but need not be installed. A failing input is written to fuzz/artifacts; `fuzz/run.sh TARGET 0 FILE` repeats it.
set -eu
cd "$(dirname "$0")"
target=$1
seconds=$2

# Coverage of every edge, comparisons and integer divisions, and the address sanitizer.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address --cfg fuzzing"
# The crates have the versions that the project ships. Cargo adds those of libFuzzer, so the build cannot be --locked.
cp ../Cargo.lock Cargo.lock
host=$(rustup run nightly rustc -vV | sed -n 's/^host: //p')
build() { cargo +nightly build --release --target "$host" "$@"; }

if [ -n "$target" ]; then
    build --bin "$target"
    targets=$target
else
    build --bins
    targets=$(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' Cargo.toml)
fi
shift 2
for name in $targets; do
    program="${CARGO_TARGET_DIR:-target}/$host/release/$name"
    mkdir -p "corpus/$name" "artifacts/$name"
    if [ $# -gt 0 ]; then
        "$program" "$@"
        continue
    fi
    echo "==> $name, for $seconds s"
    "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="artifacts/$name/" "corpus/$name"
done
