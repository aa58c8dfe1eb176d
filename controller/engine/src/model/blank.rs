//! Machines and disks of which nothing is known but who they are: what a platform, a model or a test starts from.

use jiff::Timestamp;

use super::{Activity, Disk, DiskAnnotations, DiskState, Machine, ObjectId};

impl Machine {
    /// A machine as old as time that belongs to nobody, has no disks, and does not run.
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
    /// A disk that belongs to nobody, is of no template, and is ready.
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
