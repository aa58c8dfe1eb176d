//! The CRDs as YAML, for tests and tools that install them.

use crate::crds::Crd;

#[cfg(test)]
mod tests;

/// The CRDs of the family.
pub const ALL_CRDS: &[Crd] = &[Crd {
    name: "poolautoscalers.vmpool.dev",
    kind: "PoolAutoscaler",
    yaml: include_str!("../../crds/autoscaler/poolautoscalers.vmpool.dev.yaml"),
}];
