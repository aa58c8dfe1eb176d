//! Disks that a user detached from a machine. The controller does not attach them again, and it does not free them
//! while the machine exists.

use std::fmt::Write as _;
use std::sync::Arc;

use vmpool_api::annotations;

use crate::ids::ObjectId;
use crate::plan::observed::Observed;

/// Maximum number of disks that the condition lists.
const LISTED: usize = 3;

/// A disk that the disk map of a live machine names, and that no device of the machine refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The machine.
    pub machine: ObjectId,
    /// The disk template that the disk fills.
    pub template: Arc<str>,
    /// Name of the disk.
    pub disk: Arc<str>,
    /// Another machine that refers to the disk.
    pub user: Option<Arc<str>>,
}

impl Detached {
    /// A message that says what happened and what to do.
    pub fn advice(&self) -> String {
        let Self { machine, template, disk, user } = self;
        let map = annotations::DISKS;
        match user {
            None => format!(
                "disk {disk} of disk template {template} was detached from machine {machine} by hand: the controller \
                 neither attaches it again nor frees it; to attach it again, add it to spec.blockDeviceRefs of the \
                 machine; \
                 to free it, remove {template} from annotation {map} of the machine"
            ),
            Some(user) => format!(
                "disk {disk} of disk template {template} was detached from machine {machine} by hand, and machine {user} \
                 refers to it: remove it from machine {user} and add it to spec.blockDeviceRefs of machine {machine}, or \
                 remove {template} from annotation {map} of machine {machine}"
            ),
        }
    }
}

/// All detached disks, ordered by machine.
pub fn detached(observed: &Observed<'_>) -> Vec<Detached> {
    let machines =
        observed.pool_machines().filter(|machine| !(machine.terminating || machine.detached.is_empty()));
    let mut detached: Vec<Detached> = machines
        .flat_map(|machine| {
            let vacant = machine.detached.iter().filter(|vacant| {
                observed.pool.disks.iter().any(|template| template.used && template.name == vacant.template)
            });
            vacant.map(|vacant| Detached {
                machine: machine.id.clone(),
                template: vacant.template.clone(),
                disk: vacant.disk.clone(),
                user: user(observed, &vacant.disk),
            })
        })
        .collect();
    detached.sort_unstable_by(|a, b| (&a.machine, &a.template).cmp(&(&b.machine, &b.template)));
    detached
}

fn user(observed: &Observed<'_>, disk: &Arc<str>) -> Option<Arc<str>> {
    let refers =
        observed.machines.iter().filter(|machine| machine.disks.iter().any(|device| device.disk == *disk));
    let machines = refers.map(|machine| &machine.id.name);
    let others = observed.other_users.get(disk).into_iter().flatten();
    let holds = |name: &&Arc<str>| {
        // Machines that name the disk only in their disk map are in `other_users`, too.
        let known = observed.machines.iter().find(|machine| machine.id.name == **name);
        known.is_none_or(|machine| machine.disks.iter().any(|device| device.disk == *disk))
    };
    machines.chain(others.filter(holds)).min().cloned()
}

/// One message about all detached disks.
pub(super) fn sentence(detached: &[Detached]) -> String {
    let mut text = String::new();
    for (index, detached) in detached.iter().take(LISTED).enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        write!(text, "{separator}{}", detached.advice()).expect("a string takes all");
    }
    if detached.len() > LISTED {
        write!(text, "; and {} more disks", detached.len() - LISTED).expect("a string takes all");
    }
    text
}
