//! Machines and disks with only an identity. Platforms, models and tests fill in the other fields.

use jiff::Timestamp;

use super::{Activity, Disk, DiskAnnotations, DiskState, Machine, ObjectId};

impl Machine {
    /// A machine without owner, labels, revision and disks that does not run. Its creation time is the Unix epoch.
    pub fn blank(id: ObjectId) -> Self {
        Self {
            id,
            created: Timestamp::UNIX_EPOCH,
            terminating: false,
            owner: None,
            pool_uid_label: None,
            pool_label: None,
            revision: None,
            written: None,
            evaluated: false,
            activity: Activity::NotRunning,
            restart_pending: false,
            restarts_itself: false,
            disks: Vec::new(),
            detached: Vec::new(),
            boot_disk: None,
            lingering: Vec::new(),
            devices_ready: false,
        }
    }
}

impl Disk {
    /// A ready disk without owner, labels and template. Its creation time is the Unix epoch.
    pub fn blank(id: ObjectId) -> Self {
        Self {
            id,
            created: Timestamp::UNIX_EPOCH,
            terminating: false,
            owner: None,
            pool_uid_label: None,
            template: None,
            state: DiskState::Ready,
            failure: None,
            size: None,
            capacity: None,
            mounted_by: None,
            used_otherwise: false,
            annotations: DiskAnnotations::default(),
        }
    }
}
