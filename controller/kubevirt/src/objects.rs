//! The fields of KubeVirt objects that vmpool reads.
//!
//! Decoding accepts all values that another schema may accept, because one object that cannot be decoded
//! would make the whole list fail. Missing fields and fields of another type get defaults here.
//! [`super::read`] interprets them.

mod hot_plug;
mod installation;
mod instance;
mod machine;
mod machine_status;
mod metadata;
mod pool;
mod storage;

pub use installation::InstallationObject;
pub use instance::InstanceObject;
pub use machine::KubeVirtMachineObject;
pub use machine_status::Readiness;
pub use metadata::{DEPENDENTS_FIRST, FinalizerSummary};
pub use pool::KubeVirtPoolObject;
pub use storage::{ClaimObject, DataVolumeObject};

pub(super) use machine::VolumeSource;
pub(super) use machine_status::KubeVirtMachineStatus;
pub(super) use pool::KubeVirtPoolStatus;

#[cfg(test)]
mod tests;
