//! Disks that a user detached from a machine. The controller does not attach them again, and it does not free
//! them while the machine exists.

use std::fmt::Write as _;
use std::sync::Arc;

use vmpool_api::annotations;

use crate::ids::ObjectId;
use crate::model::{Machine, Pool};
use crate::plan::observed::ObservedPool;

/// Maximum number of disks that the condition lists.
const LISTED: usize = 3;

/// A disk that a live machine should have, and that a user removed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedDiskReport {
    /// The machine.
    pub machine: ObjectId,
    /// The disk template, or the storage template, that the disk fills.
    pub template: Arc<str>,
    /// Name of the disk.
    pub disk: Arc<str>,
    /// How the machine would refer to it.
    pub link: DetachedDiskLink,
}

/// How a machine refers to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetachedDiskLink {
    /// By a device. The disk map of the machine still names the disk.
    Device {
        /// Another machine that refers to the disk.
        user: Option<Arc<str>>,
    },
    /// By a volume, whose name is that of the volume in the template.
    Volume(Arc<str>),
}

impl DetachedDiskReport {
    /// A message that says what happened and what to do.
    pub fn advice(&self) -> String {
        let Self { machine, template, disk, link } = self;
        let map = annotations::DISKS;
        match link {
            DetachedDiskLink::Volume(volume) => format!(
                "volume {volume} was removed from machine {machine} by hand: the controller neither adds it again nor \
                 deletes storage {disk} while the machine exists; to get it back, add the volume and the template of its \
                 storage to the machine as the pool has them; to get a machine with all volumes, delete this one"
            ),
            DetachedDiskLink::Device { user: None } => format!(
                "disk {disk} of disk template {template} was detached from machine {machine} by hand: the controller \
                 neither attaches it again nor frees it; to attach it again, add it to spec.blockDeviceRefs of the \
                 machine; \
                 to free it, remove {template} from annotation {map} of the machine"
            ),
            DetachedDiskLink::Device { user: Some(user) } => format!(
                "disk {disk} of disk template {template} was detached from machine {machine} by hand, and machine {user} \
                 refers to it: remove it from machine {user} and add it to spec.blockDeviceRefs of machine {machine}, or \
                 remove {template} from annotation {map} of machine {machine}"
            ),
        }
    }
}

/// All detached disks, ordered by machine.
pub fn find_detached_disks(observed: &ObservedPool<'_>) -> Vec<DetachedDiskReport> {
    let machines = observed.pool_machines().filter(|machine| !machine.terminating);
    let mut detached: Vec<DetachedDiskReport> = machines
        .flat_map(|machine| {
            disks_without_device(observed, machine).chain(storage_without_volume(observed.pool, machine))
        })
        .collect();
    detached.sort_unstable_by(|a, b| (&a.machine, &a.template).cmp(&(&b.machine, &b.template)));
    detached
}

/// The disks that the disk map of the machine names, and that no device refers to.
fn disks_without_device<'a>(
    observed: &'a ObservedPool<'_>,
    machine: &'a Machine,
) -> impl Iterator<Item = DetachedDiskReport> + 'a {
    let vacant = machine.detached.iter().filter(|vacant| {
        observed.pool.disks.iter().any(|template| template.used && template.name == vacant.template)
    });
    vacant.map(|vacant| DetachedDiskReport {
        machine: machine.id.clone(),
        template: vacant.template.clone(),
        disk: vacant.disk.clone(),
        link: DetachedDiskLink::Device { user: find_disk_user(observed, &vacant.disk) },
    })
}

/// The storage whose volume the machine lacks, although the current revision was written to the machine.
fn storage_without_volume<'a>(
    pool: &'a Pool,
    machine: &'a Machine,
) -> impl Iterator<Item = DetachedDiskReport> + 'a {
    let is_current = machine.written.as_ref().is_some_and(|written| pool.is_current(written));
    let templates = if is_current { &pool.storage_templates[..] } else { &[] };
    templates.iter().filter_map(|template| {
        let volume = template.volume.as_ref().filter(|volume| !machine.volumes.contains(volume))?;
        let disk = template.storage_of(&pool.id.name, &machine.id.name)?;
        Some(DetachedDiskReport {
            machine: machine.id.clone(),
            template: template.name.clone(),
            disk,
            link: DetachedDiskLink::Volume(volume.clone()),
        })
    })
}

fn find_disk_user(observed: &ObservedPool<'_>, disk: &Arc<str>) -> Option<Arc<str>> {
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
pub(super) fn describe_detached_disks(detached: &[DetachedDiskReport]) -> String {
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
