//! KubeVirt: pools of `pool.kubevirt.io`, machines of `kubevirt.io`, and the DataVolumes and claims of the machines.
//!
//! The module contains pure translations between stored objects and plain types. It sends no requests and makes no
//! decisions about pools; `restart` and `coexistence` contain the decision tables that KubeVirt's API requires.
//!
//! The layers, lowest first. A module imports only from lower layers:
//!
//! 1. `labels`, `selectors`, `keys`, `events`: values
//! 2. `objects`: the fields of stored objects that vmpool reads
//! 3. `read`: stored objects as plain types
//! 4. `template`, `machine`, `revision`, `release`, `restart`, `status`, `coexistence`: comparisons, objects and patches
//! 5. `update`: the patch that writes a template to an existing machine
//!
//! `admission` has the rules of the webhook. It uses `selectors`.

pub mod admission;
#[cfg(test)]
mod fixtures;
pub mod keys;
pub mod labels;
pub mod machine;
pub mod objects;
pub mod read;
pub mod revision;
pub mod selectors;
pub mod status;
