//! Whether the pool loop of virt-controller is off, so that vmpool may reconcile the pools of KubeVirt.
//!
//! Two controllers on one pool would delete each other's machines. KubeVirt has one switch, a flag of
//! virt-controller for the whole cluster. The objects that contain it also configure what machines get.

use std::sync::Arc;

use serde::Deserialize;
use vmpool_instancetype::defaults::InstanceDefaults;
use vmpool_instancetype::quantity::Amount;

use crate::{Configuration, DefaultInterface};

use super::objects::InstallationObject;

/// The flag of virt-controller with the number of its pool workers.
pub const FLAG: &str = "pool-controller-threads";

/// A list of KubeVirt objects.
#[derive(Default, Deserialize)]
pub(super) struct Installations {
    pub(super) items: Vec<InstallationObject>,
}

/// Whether virt-controller reconciles pools. The list of all KubeVirt objects of the cluster decodes to it;
/// the default is that of a cluster without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Installations")]
pub enum PoolLoop {
    /// It does not.
    #[default]
    Off,
    /// It may. The text says why, and what to change.
    MayRun(String),
}

impl From<Installations> for PoolLoop {
    fn from(Installations { items }: Installations) -> Self {
        pool_loop(&items)
    }
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
///
/// Only an explicit setting counts, because the default depends on the version of KubeVirt.
fn live_updates(installations: &[InstallationObject]) -> bool {
    let is_live =
        |installation: &InstallationObject| installation.rollout_strategy.as_deref() == Some("LiveUpdate");
    !installations.is_empty() && installations.iter().all(is_live)
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
        eviction_strategy: eviction_strategy.clone(),
    }
}

#[cfg(test)]
mod tests;
