//! The APIs of targeted removal and of claims: which groups are served for the pools of each platform, and which stored objects a
//! removal reads and writes.

use crate::{dvp, kubevirt};

pub use crate::claim_facts::{Page, StoredMachine, instance_addresses};
pub use crate::kubevirt::expansion::{self, Expansion, Problem, Revision};
pub use crate::removal_api::{ExpansionApi, PlatformOf, RemovalApi, Stored, StoredResource};

/// The served groups. On a cluster with the platform's own API server, a group can belong to the platform: the
/// APIServices of the cluster decide which groups reach vmpool.
pub const APIS: &[RemovalApi] = &[dvp::removal::REFERENCE, dvp::removal::VMPOOL, kubevirt::removal::VMPOOL];
