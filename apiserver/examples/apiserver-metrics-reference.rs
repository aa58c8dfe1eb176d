//! Prints the API server's part of docs/metrics.md. `cargo xtask generate` calls it.

fn main() {
    print!("{}", vmpool_apiserver::metrics_reference());
}
