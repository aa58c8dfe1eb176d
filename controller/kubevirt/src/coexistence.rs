//! Whether the pool loop of virt-controller is off, so that vmpool may reconcile the pools of KubeVirt.
//!
//! Two controllers on one pool would delete each other's machines. KubeVirt has one switch, a flag of
//! virt-controller for the whole cluster. The objects that contain it also configure what machines get.

use std::sync::Arc;

use serde::Deserialize;
use vmpool_instancetype::defaults::InstanceDefaults;
use vmpool_instancetype::quantity::Amount;
use vmpool_platform::{Configuration, DefaultInterface};

use super::objects::InstallationObject;

/// The flag of virt-controller with the number of its pool workers.
pub const FLAG: &str = "pool-controller-threads";

/// A list of KubeVirt objects.
#[derive(Default, Deserialize)]
pub(super) struct Installations {
    pub(super) items: Vec<InstallationObject>,
}

/// Whether virt-controller reconciles pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolLoop {
    /// It does not.
    Off,
    /// It may. The text says why, and what to change.
    MayRun(String),
}

/// Reads all KubeVirt objects of the cluster. Without one, no virt-controller runs. Otherwise the flag must
/// be `0` in each, and KubeVirt's operator must have applied it: phase `Deployed`, with the generation
/// observed.
pub fn pool_loop(installations: &[InstallationObject]) -> PoolLoop {
    installations.iter().find_map(pool_loop_blocker).map_or(PoolLoop::Off, PoolLoop::MayRun)
}

/// Whether virt-controller is set to reconcile pools. While its operator applies the setting, vmpool
/// reconciles none, but will again.
pub fn is_set_to_run(installations: &[InstallationObject]) -> bool {
    installations.iter().any(|installation| !is_pool_loop_off(installation))
}

fn is_pool_loop_off(installation: &InstallationObject) -> bool {
    installation.controller_flags.get(FLAG).is_some_and(|flag| flag == "0")
}

fn pool_loop_blocker(installation: &InstallationObject) -> Option<String> {
    let metadata = &installation.metadata;
    let name = format!(
        "KubeVirt {}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    );
    let generation = metadata.generation.unwrap_or_default();
    let phase = &installation.phase;
    match installation.controller_flags.get(FLAG).map(String::as_str) {
        Some("0") => {}
        flag => {
            let is = flag.map_or_else(|| "is not set".to_owned(), |flag| format!("is {flag:?}"));
            return Some(format!(
                "the flag {FLAG} of virt-controller {is} in {name}; set \
                 spec.customizeComponents.flags.controller.{FLAG} to \"0\""
            ));
        }
    }
    if metadata.deletion_timestamp.is_some() {
        return Some(format!("{name} is being deleted; wait until it is gone"));
    }
    if installation.observed_generation.is_none_or(|observed| observed < generation) {
        return Some(format!("KubeVirt's operator has not observed generation {generation} of {name} yet"));
    }
    (phase != "Deployed").then(|| format!("{name} is in phase {phase:?} and not yet \"Deployed\""))
}

/// What all KubeVirt objects of the cluster configure.
pub fn kubevirt_configuration(installations: &[InstallationObject]) -> Configuration {
    Configuration {
        updates_live: live_updates(installations),
        expands_references: expands_references(installations),
        interface: default_interface(installations),
        architecture: Some(machine_defaults(installations).architecture)
            .filter(|name| !name.is_empty())
            .map(Arc::from),
    }
}

/// Whether KubeVirt applies changes of sockets, memory and placement to running machines.
fn live_updates(installations: &[InstallationObject]) -> bool {
    !installations.is_empty() && installations.iter().all(is_live_update)
}

fn is_live_update(installation: &InstallationObject) -> bool {
    match installation.rollout_strategy.as_deref() {
        Some(strategy) => strategy == "LiveUpdate",
        None => installation.version.as_deref().is_none_or(is_live_update_default),
    }
}

/// The first version of KubeVirt, as major and minor number, whose default rollout strategy is LiveUpdate.
/// The default of earlier versions is Stage.
const LIVE_UPDATE_SINCE: (u64, u64) = (1, 6);

/// Whether the default rollout strategy of this version of KubeVirt is LiveUpdate.
///
/// A version that cannot be read, for example the hash of a commit, counts as a recent one. If it is an old
/// one, KubeVirt sets the condition `RestartRequired` on each changed machine, and the controller then
/// restarts it. The opposite error would restart guests for changes that KubeVirt has already applied.
fn is_live_update_default(version: &str) -> bool {
    minor_version(version).is_none_or(|version| version >= LIVE_UPDATE_SINCE)
}

/// The major and the minor number of a version such as `v1.6.0`, `1.9.0-beta.0` or `v1.5.2-33-gab12cd3`;
/// `None` for other texts. A pre-release has the defaults of its release.
fn minor_version(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.strip_prefix('v').unwrap_or(version).splitn(3, '.');
    let (major, minor, patch) = (numbers.next()?, numbers.next()?, numbers.next()?);
    // A text such as `sha256:1.2.3` or `1.2.x` is no version.
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version =
        is_number(major) && is_number(minor) && patch.starts_with(|first: char| first.is_ascii_digit());
    if is_version { Some((major.parse().ok()?, minor.parse().ok()?)) } else { None }
}

/// Whether KubeVirt writes instance types and preferences into machines, and deletes the copies that they
/// name.
fn expands_references(installations: &[InstallationObject]) -> bool {
    let expands = |installation: &InstallationObject| {
        matches!(installation.reference_policy.as_deref(), Some("expand" | "expandAll"))
    };
    installations.iter().any(expands)
}

/// The interface that KubeVirt adds to a machine that lists none.
fn default_interface(installations: &[InstallationObject]) -> DefaultInterface {
    let interface = installations.iter().find_map(|installation| installation.default_interface.as_deref());
    let permits_bridge = installations.iter().all(|installation| installation.permits_bridge != Some(false));
    match interface {
        None | Some("" | "bridge") if permits_bridge => DefaultInterface::Bridge,
        Some("masquerade") => DefaultInterface::Masquerade,
        // KubeVirt starts no machine with an interface that it does not permit.
        None | Some(_) => DefaultInterface::Other,
    }
}

/// The CPU request for which KubeVirt writes none into a machine.
const CPU_REQUEST: &str = "100m";

/// The eviction strategy of KubeVirt if none is configured.
const EVICTION_STRATEGY: &str = "None";

/// The machine types of KubeVirt for architectures for which none is configured.
const MACHINE_TYPES: [(&str, &str); 3] = [("amd64", "q35"), ("arm64", "virt"), ("s390x", "s390-ccw-virtio")];

/// The general defaults that KubeVirt gives to machines, as far as its objects show them. Without a KubeVirt
/// object, none is known.
pub fn machine_defaults(installations: &[InstallationObject]) -> InstanceDefaults {
    let Some(installation) = installations.first() else { return InstanceDefaults::default() };
    let InstallationObject { architecture, machine_types, cpu_request, eviction_strategy, .. } = installation;
    let constants =
        MACHINE_TYPES.map(|(architecture, machine)| (architecture.to_owned(), machine.to_owned()));
    // A request that KubeVirt cannot read is none either.
    let is_written = |request: &&String| {
        let (request, constant) = (Amount::parse(request), Amount::parse(CPU_REQUEST));
        matches!((request, constant), (Ok(request), Ok(constant)) if request.compare(&constant).is_ne())
    };
    InstanceDefaults {
        architecture: architecture.clone().unwrap_or_default(),
        machine_types: constants.into_iter().chain(machine_types.clone()).collect(),
        cpu_request: cpu_request.as_ref().filter(is_written).cloned(),
        eviction_strategy: eviction_strategy.clone().or_else(|| Some(EVICTION_STRATEGY.to_owned())),
    }
}

#[cfg(test)]
mod tests;
