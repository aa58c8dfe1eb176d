//! Builds a pool of DVP, examines a stored one, and prepares a claim and a removal for it.
//!
//! It needs no Kubernetes client. It reads a stored pool as JSON:
//!
//! ```sh
//! kubectl get virtualmachinepools.virtualization.deckhouse.io runners -n ci -o json |
//!   cargo run -p vmpool-api --example dvp_pool
//! ```

use std::error::Error;
use std::time::Duration;

use vmpool_api::conditions::{Conditions, pool};
use vmpool_api::enums::ScaleDownPolicy;
use vmpool_api::subresources::{DVP, MachineClaim, PoolSubresource, TargetedRemoval};
use vmpool_api::v1alpha2::{DiskTemplate, VirtualMachinePool};
use vmpool_api::wait::{self, AnyPool};

fn main() -> Result<(), Box<dyn Error>> {
    let stored = std::io::read_to_string(std::io::stdin())?;
    println!("{}", describe_pool(&stored)?);
    Ok(())
}

/// The lines that the example prints about a stored pool.
pub(crate) fn describe_pool(stored: &str) -> Result<String, Box<dyn Error>> {
    let mut lines = Vec::new();

    let new = VirtualMachinePool::builder("runners", ScaleDownPolicy::Explicit)
        .namespace("ci")
        .replicas(2)
        .cpu(2, "50%")
        .memory("2Gi")
        .disk(DiskTemplate::from_cluster_image("root", "debian"))
        .build();
    lines.push(format!("new: {}", serde_json::to_string(&new)?));

    let stored: VirtualMachinePool = serde_json::from_str(stored)?;
    let (ready, desired) = (stored.ready_machines(), stored.desired_machines());
    let phase = stored.pool_phase().unwrap_or("unknown");
    lines.push(format!("stored: {ready} of {desired} machines are ready, phase {phase}"));
    let is_ready = wait::pool_is_ready::<VirtualMachinePool>();
    if is_ready(Some(&stored)) {
        lines.push("stored: the pool is as its spec describes it".to_owned());
    } else if let Some(stalled) = stored.condition(pool::STALLED).filter(|found| found.status == "True") {
        lines.push(format!("stored: a user must act: {}", stalled.message));
    }

    let namespace = stored.metadata.namespace.as_deref().unwrap_or("default");
    let name = stored.metadata.name.as_deref().unwrap_or_default();
    let claim = MachineClaim::new("job-1", Duration::from_hours(1)).reason("build 4711");
    let path = DVP.path(namespace, name, PoolSubresource::Claim);
    lines.push(format!("POST {path} {}", serde_json::to_string(&claim)?));

    let mut removal = TargetedRemoval::of([format!("{name}-7xk2d")]);
    if let Some(uid) = &stored.metadata.uid {
        // A pool that was created again has other machines.
        removal = removal.pool_uid(uid.as_str());
    }
    let path = DVP.path(namespace, name, PoolSubresource::ScaleDownWith);
    lines.push(format!("POST {path} {}", serde_json::to_string(&removal)?));
    Ok(lines.join("\n"))
}
