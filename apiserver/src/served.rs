//! Which APIs have resources at the moment.
//!
//! The group of a platform belongs to the platform's own API server. This server has resources in it only
//! while it knows that the platform is not installed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use vmpool_platforms::removal::{Apis, StoredResource};
use vmpool_runtime::Env;
use vmpool_runtime::health::Unhealthy;

use crate::cluster::ClusterClient;

/// The interval between reads of the installations of the platform.
const PERIOD: Duration = Duration::from_secs(10);

/// What this server knows about the installations of the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum InstallationState {
    /// They were not read yet.
    Unread,
    /// They cannot be read.
    Unreadable,
    /// There are none.
    Absent,
    /// There is one at least.
    Installed,
}

/// The served APIs. Clones share what is known about the platform.
#[derive(Clone, Debug)]
pub(crate) struct ServedApis {
    all: Apis,
    enabled: bool,
    platform: Arc<AtomicU8>,
}

impl ServedApis {
    /// These APIs, or none if the feature is not enabled.
    pub(crate) fn new(all: Apis, enabled: bool) -> Self {
        Self { all, enabled, platform: Arc::new(AtomicU8::new(InstallationState::Unread as u8)) }
    }

    /// Whether the feature is enabled.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// All APIs, for discovery, which lists each group also while it has no resources. Otherwise an
    /// APIService of the group would be unavailable, and would block the deletion of namespaces.
    pub(crate) fn all(&self) -> Apis {
        self.all
    }

    /// The APIs whose resources are served at the moment.
    pub(crate) fn now(&self) -> Apis {
        if !self.enabled {
            Apis::NONE
        } else if self.platform.load(Ordering::Relaxed) == InstallationState::Absent as u8 {
            self.all
        } else {
            self.all.without_reference()
        }
    }

    /// The installations that decide whether the group of the platform is served.
    fn installations(&self) -> Option<&'static StoredResource> {
        self.all.reference.filter(|_| self.enabled).map(|reference| reference.installations)
    }

    /// Whether the resources of all groups are known: the installations were read, or cannot be read.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        let is_unread = self.platform.load(Ordering::Relaxed) == InstallationState::Unread as u8;
        match self.installations() {
            Some(installations) if is_unread => {
                Err(Unhealthy::new(format!("{} were not read yet", installations.plural)))
            }
            _ => Ok(()),
        }
    }
}

/// Reads the installations of the platform periodically. Returns at once if no served group depends on them.
///
/// If a read fails, the last result stays in use.
pub(crate) async fn follow_installations(apis: ServedApis, cluster: ClusterClient, env: Env) {
    let Some(installations) = apis.installations() else { return };
    let StoredResource { plural, group, .. } = installations;
    let mut known = InstallationState::Unread;
    loop {
        let read = match cluster.has_any(installations).await {
            Ok(true) => InstallationState::Installed,
            Ok(false) => InstallationState::Absent,
            Err(error) => {
                tracing::warn!(%error, "reading {plural}.{group} failed, retrying");
                if known == InstallationState::Unread { InstallationState::Unreadable } else { known }
            }
        };
        if read != known {
            match read {
                InstallationState::Installed => tracing::error!(
                    "the cluster has an object of {plural}.{group}, whose own API server expands machines: serving nothing in \
                     its group. Set --instancetype-mode to Coexist"
                ),
                InstallationState::Absent => {
                    tracing::info!("serving the expansion of machines in the group of the platform");
                }
                InstallationState::Unread | InstallationState::Unreadable => {}
            }
            known = read;
            apis.platform.store(known as u8, Ordering::Relaxed);
        }
        env.sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests;
