//! The input of a plan.

use std::collections::BTreeSet;
#[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::ids::Uid;
use crate::ledger::UnconfirmedCreate;
use crate::memory::Memory;
use crate::model::{Disk, Machine, Pool};
use crate::revision::RevisionId;

/// The names that are in use in the pool's namespace.
pub trait NamesInUse {
    /// Whether a machine object has this name.
    fn has_machine(&self, name: &str) -> bool;
    /// Whether a disk object has this name.
    fn has_disk(&self, name: &str) -> bool;
}

/// The usual [`Observed::collection_grace`].
pub const COLLECTION_GRACE: Duration = Duration::from_secs(30);

/// All inputs of one pass. They are read once and not refreshed during the pass.
pub struct Observed<'a> {
    /// When the pass began. The engine has no other clock.
    pub now: Timestamp,
    /// The same time on the monotonic clock.
    pub uptime: Duration,
    /// The pool.
    pub pool: &'a Pool,
    /// Machines that the pool owns or that have its UID as a label. The ledger is already overlaid on the cache.
    pub machines: Vec<Arc<Machine>>,
    /// The existing disks that the machines refer to, by name, with the ledger overlaid.
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub disks: HashMap<Arc<str>, Arc<Disk>>,
    /// The disks that the pool owns or that have its UID as a label, with the ledger overlaid. Disks that a machine
    /// owns may be omitted.
    pub pool_disks: Vec<Arc<Disk>>,
    /// Other users of [`Observed::pool_disks`], by disk: machines that do not belong to the pool, and attachments that
    /// users created.
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub other_users: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Time between the mark and the deletion of a disk. In this time, a use that has just begun becomes visible.
    pub collection_grace: Duration,
    /// The revisions that are stored, oldest first.
    pub stored: Vec<RevisionId>,
    /// Unconfirmed creates of machines.
    pub unconfirmed_creates: Vec<UnconfirmedCreate>,
    /// The memory of the pool.
    pub memory: &'a Memory,
    /// Names in use.
    pub names_in_use: &'a dyn NamesInUse,
}

impl Observed<'_> {
    /// The machines of the pool: those whose controller owner reference names the pool.
    pub fn pool_machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.machines.iter().filter(|machine| machine.owner.as_ref() == Some(&self.pool.id.uid))
    }

    /// Marks the pool's machines that are not in `staying`, the result of a live list, as terminating. They do not
    /// count as machines that stay. The controller replaces them only when the snapshot shows that they are gone.
    pub fn count_live(&mut self, staying: &BTreeSet<Uid>) {
        let pool = &self.pool.id.uid;
        for machine in &mut self.machines {
            let live = machine.owner.as_ref() == Some(pool) && !machine.terminating;
            if live && !staying.contains(&machine.id.uid) {
                Arc::make_mut(machine).terminating = true;
            }
        }
    }
}
