//! The autoscaler of pools (`vmpool.dev/v1alpha1`), which keeps machines of a pool free.
//!
//! ```
//! use vmpool_api::autoscaler::{PoolAutoscaler, PoolAutoscalerPoolRef, PoolAutoscalerSpec};
//!
//! let pool_ref = PoolAutoscalerPoolRef {
//!     api_version: vmpool_api::kubevirt::POOL_API_VERSION.to_owned(),
//!     kind: "VirtualMachinePool".to_owned(),
//!     name: "runners".to_owned(),
//! };
//! let spec = PoolAutoscalerSpec { pool_ref, max_replicas: 20, ..PoolAutoscalerSpec::default() };
//! let autoscaler = PoolAutoscaler::new("runners", spec);
//! assert_eq!(serde_json::to_value(&autoscaler)?["apiVersion"], vmpool_api::autoscaler::API_VERSION);
//! # Ok::<_, serde_json::Error>(())
//! ```

pub mod crds;

pub use crate::generated::autoscaler::pool_autoscaler::{
    self, PoolAutoscaler, PoolAutoscalerPoolRef, PoolAutoscalerScaleDown, PoolAutoscalerSchedules,
    PoolAutoscalerSpec, PoolAutoscalerStatus,
};

/// Group of autoscalers.
pub const GROUP: &str = "vmpool.dev";
/// Group and version of autoscalers, as in `apiVersion`.
pub const API_VERSION: &str = "vmpool.dev/v1alpha1";
/// Kind of autoscalers.
pub const KIND: &str = "PoolAutoscaler";
/// Kind of the pools of both platforms, as in `spec.poolRef.kind`.
pub const POOL_KIND: &str = "VirtualMachinePool";
