//! What claims read of a stored machine and of an instance, on any platform.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::{Machine, Uid};

/// The longest list of addresses.
const ADDRESSES: usize = 64;

/// A stored machine.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMachine {
    /// Its facts.
    pub machine: Machine,
    /// Its resource version.
    pub version: String,
    /// Its IP addresses, if the machine object contains them.
    pub addresses: Vec<String>,
}

/// An instance: a machine and the revision that its guest was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredInstance {
    /// The UID of the machine.
    pub machine: Uid,
    /// The revision.
    pub revision: RevisionId,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObjectPage<T> {
    /// The objects.
    pub items: Vec<T>,
    /// Where the next page begins; `None` for the last page.
    pub next: Option<String>,
}

/// The IP addresses in an instance of a machine, an object with the name of its machine.
///
/// # Errors
/// A text that is not an object.
pub fn instance_addresses(body: &RawValue) -> serde_json::Result<Vec<String>> {
    let Addressed { status, .. } = serde_json::from_str(body.get())?;
    Ok(status.addresses())
}

#[derive(Deserialize)]
struct Addressed {
    #[serde(default, deserialize_with = "lenient_status")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    ip_address: Option<String>,
    interfaces: Vec<Interface>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Interface {
    ip_address: Option<String>,
    ip_addresses: Option<Vec<String>>,
}

impl Status {
    /// All addresses, each once, the first one first.
    fn addresses(self) -> Vec<String> {
        let of_interface = |interface: Interface| {
            let all = interface.ip_addresses.unwrap_or_default();
            interface.ip_address.into_iter().chain(all)
        };
        let all = self.ip_address.into_iter().chain(self.interfaces.into_iter().flat_map(of_interface));
        let mut addresses: Vec<String> = Vec::new();
        for address in all.filter(|address| !address.is_empty()).take(ADDRESSES) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }
}

fn lenient_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
    let status = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(status).unwrap_or_default())
}
