//! Prints the webhook's part of docs/metrics.md. `cargo xtask generate` calls it.

fn main() {
    print!("{}", vmpool_webhook::metrics::reference::metrics_reference());
}
