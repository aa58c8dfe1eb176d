//! Prints the controller's part of docs/metrics.md. `cargo xtask generate` calls it.

fn main() {
    print!("{}", vmpool_controller::metrics::reference::controller_metrics_reference());
}
