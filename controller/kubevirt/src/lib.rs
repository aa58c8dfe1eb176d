//! KubeVirt: pools of `pool.kubevirt.io`, machines of `kubevirt.io`, and the DataVolumes and claims of the
//! machines.
//!
//! The crate contains pure translations between stored objects and plain types. It sends no requests and
//! makes no decisions about pools; `restart` and `coexistence` contain the decision tables that KubeVirt's
//! API requires.
//!
//! The layers, lowest first. A module imports only from lower layers:
//!
//! 1. `keys`, `labels`, `selectors`, `field_encodings`, `canonical_values`, `former_storage`,
//!    `history_limit`, `annotated_names`: values
//! 2. `objects`: the fields of stored objects that vmpool reads
//! 3. `read`: settings of pools as plain types
//! 4. `machine`, `release`, `coexistence`: objects, patches and verdicts from these types
//! 5. `template`, `revision`, `storage`, `storage_origin`, `events`: comparisons of templates, stored
//!    templates, storage that a new machine would share, and the texts of events
//! 6. `restart`, `update`, `moved_storage`: what brings a changed template to an existing machine, and moved
//!    storage to the next
//! 7. `publish`, `facts`: the data model of the engine
//! 8. `platform`: the implementation of [`Platform`](vmpool_platform::Platform); `expansion`: machines and
//!    pools with instance type and preference written out; `disk_sources`, `view` and `registration`: what
//!    programs need
//!
//! `admission` contains the rules of the webhook for pools, and uses `selectors`. `protection` reads of pools
//! what the protection of instance types needs. `removal` contains the groups of targeted removal.
//! Everything else about instance types and preferences is in the crate `vmpool-instancetype`.

pub mod admission;
mod annotated_names;
mod canonical_values;
pub mod coexistence;
mod disk_sources;
pub mod dropped_storage;
pub mod events;
pub mod expansion;
mod facts;
mod field_encodings;
#[cfg(test)]
mod fixtures;
mod history_limit;
pub mod keys;
pub mod labels;
pub mod machine;
mod moved_storage;
pub mod objects;
mod platform;
pub mod protection;
mod publish;
pub mod read;
mod registration;
pub mod release;
pub mod removal;
pub mod restart;
pub mod revision;
pub mod selectors;
mod standby;
pub mod storage;
pub mod storage_origin;
pub mod template;
pub mod update;
mod view;

pub use objects::{InstanceObject, KubeVirtMachineObject, KubeVirtPoolObject};
pub use platform::KubeVirt;
