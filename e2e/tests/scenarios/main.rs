//! Scenarios of pools of DVP, and of what does not depend on the platform: one binary, so that they share a
//! cluster, and one module per subject. What both platforms promise is in `tests/platforms`.
//!
//! They run in parallel threads and mostly wait, so you can use more threads than CPUs (`RUST_TEST_THREADS`).

mod adoption;
mod agreement;
mod autoscaling;
mod control_plane;
mod disks;
mod documented;
mod edits;
mod explicit;
mod failures;
mod foreign_objects;
mod gates;
mod helm_wait;
mod machines;
mod metrics;
mod missing_objects;
mod refusals;
mod removal;
mod requests;
mod roles;
mod rollout;
mod schemas;
mod settings;
mod smoke;
mod storage;
mod usability;
mod webhook;

use vmpool_e2e::harness;
use vmpool_e2e::scenario::LIMIT;
use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::error_with_causes;

/// Runs a test that needs the shared control plane but no pool. Other tests use `scenario`.
#[expect(clippy::panic, reason = "this is how a test fails")]
fn with_control_plane(test: impl AsyncFnOnce(&ControlPlane) -> anyhow::Result<()>) {
    let test = async { test(&*harness::shared_cluster().await?).await };
    let outcome = harness::block_on(async { Deadline::after(LIMIT).within(test).await });
    let late = |elapsed| Err(anyhow::anyhow!("it has not completed after {elapsed}"));
    if let Err(error) = outcome.unwrap_or_else(late) {
        panic!("{}", error_with_causes(error.as_ref()));
    }
}
