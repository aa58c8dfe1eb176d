//! Rules about the networks of the machines.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_api::v1alpha2::virtual_machine::VirtualMachineNetworks as Network;
use vmpool_engine::admission::{RuleResult, refuse_value};

use super::facts::{CapabilityState, ClusterCapabilities};
use super::rule::Rule;
use super::view::MACHINE;

/// The number of the main network.
const MAIN_ID: i64 = 1;
const GREATEST_ID: i64 = 16_383;

pub(super) fn check_networks(networks: &[Network], cluster: ClusterCapabilities) -> RuleResult {
    let (mut seen, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for (index, network) in networks.iter().enumerate() {
        let entry = Entry { index, network };
        entry.name()?;
        if !seen.insert((network.r#type.as_str(), network.name.as_deref())) {
            return entry.refuse("name", "the network is listed already", "remove one of the two entries");
        }
        entry.place()?;
        entry.id()?;
        let id = if entry.is_main() { Some(MAIN_ID) } else { network.id };
        if id.is_some_and(|id| !ids.insert(id)) {
            return entry.refuse(
                "id",
                "another network has the same id; that of Main is 1",
                "give each network its own id, or leave it out",
            );
        }
        if !entry.is_main() && cluster.sdn == CapabilityState::No {
            return entry.refuse(
                "type",
                "this cluster has no software-defined networks",
                "keep the Main network only, or have the feature switched on",
            );
        }
    }
    let main = networks.is_empty() || networks.iter().any(|network| network.r#type == "Main");
    if main && cluster.machine_cidrs == CapabilityState::No {
        let (value, reason) = if networks.is_empty() {
            (
                Value::Null,
                "without an entry the machines are on the Main network, and this cluster has no address \
                 ranges for machines there",
            )
        } else {
            (Value::from("Main"), "this cluster has no address ranges for machines on the Main network")
        };
        return refuse_value(
            Rule::Networks,
            format!("{MACHINE}.networks"),
            &value,
            reason,
            "name other networks, or have address ranges for machines configured",
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Entry<'a> {
    index: usize,
    network: &'a Network,
}

impl Entry<'_> {
    fn is_main(self) -> bool {
        self.network.r#type == "Main"
    }

    fn refuse(self, field: &str, reason: &str, way_out: &str) -> RuleResult {
        let value = match field {
            "type" => Value::from(self.network.r#type.as_str()),
            "id" => Value::from(self.network.id),
            _ => Value::from(self.network.name.as_deref()),
        };
        let path = format!("{MACHINE}.networks[{}].{field}", self.index);
        refuse_value(Rule::Networks, path, &value, reason, way_out)
    }

    fn name(self) -> RuleResult {
        let named = self.network.name.as_deref().is_some_and(|name| !name.is_empty());
        match self.network.r#type.as_str() {
            "Main" if named => self.refuse(
                "name",
                "the Main network has no name",
                "remove it, or use type Network or ClusterNetwork",
            ),
            "Network" | "ClusterNetwork" if !named => {
                self.refuse("name", "networks other than Main are found by name", "add the name")
            }
            "Main" | "Network" | "ClusterNetwork" => Ok(()),
            _ => self.refuse("type", "no such type", "use Main, Network or ClusterNetwork"),
        }
    }

    fn place(self) -> RuleResult {
        if self.is_main() && self.index > 0 {
            return self.refuse("type", "the Main network comes first", "move it to the head of the list");
        }
        Ok(())
    }

    fn id(self) -> RuleResult {
        match self.network.id {
            Some(id) if self.is_main() && id != MAIN_ID => {
                self.refuse("id", "the Main network always has id 1", "remove it, or set it to 1")
            }
            Some(id) if !(1..=GREATEST_ID).contains(&id) => {
                self.refuse("id", "out of range", "use a number from 1 to 16383, or leave it out")
            }
            Some(_) | None => Ok(()),
        }
    }
}
