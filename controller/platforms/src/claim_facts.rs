//! What claims read of stored pools, machines, instances and revisions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use vmpool_api::OwnerIdentity;
use vmpool_engine::model::Instance;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::{Machine, ObjectId, ParsedPool, Uid};

use crate::owner::is_owner;
use crate::removal_api::{PlatformKind, StoredApi};
use crate::{Dvp, Instances as _, KubeVirt, Platform, ReferencedObject, dvp, kubevirt};

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

impl StoredApi {
    /// Reads a stored pool.
    ///
    /// # Errors
    /// A text that is not a pool.
    pub fn read_pool(&self, body: &RawValue) -> serde_json::Result<ParsedPool> {
        match self.platform {
            PlatformKind::Dvp => Ok(Dvp::read_pool(&serde_json::from_str(body.get())?)),
            PlatformKind::KubeVirt => Ok(KubeVirt::read_pool(&serde_json::from_str(body.get())?)),
        }
    }

    /// Whether this pool is the controller among the owners of an object in its namespace.
    pub fn is_controlled_by(&self, owners: &[OwnerReference], pool: &ObjectId) -> bool {
        let controller = owners.iter().find(|owner| owner.controller == Some(true)).map(OwnerIdentity::of);
        controller.is_some_and(|owner| match self.platform {
            PlatformKind::Dvp => is_owner::<<Dvp as Platform>::Pool>(owner, pool),
            PlatformKind::KubeVirt => is_owner::<<KubeVirt as Platform>::Pool>(owner, pool),
        })
    }

    /// Reads a stored machine.
    ///
    /// # Errors
    /// A text that is not a machine.
    pub fn read_machine(&self, body: &RawValue) -> serde_json::Result<StoredMachine> {
        match self.platform {
            PlatformKind::Dvp => read_stored_machine::<Dvp>(body),
            PlatformKind::KubeVirt => read_stored_machine::<KubeVirt>(body),
        }
    }

    /// Reads a page of a list of machines.
    ///
    /// # Errors
    /// A text that is not a list of machines.
    pub fn read_page(&self, body: &RawValue) -> serde_json::Result<StoredObjectPage<StoredMachine>> {
        read_list_page(body, |item| self.read_machine(item))
    }

    /// Reads a page of a list of instances, of which the metadata is enough. Those without revision, which
    /// belong to no pool, are left out.
    ///
    /// # Errors
    /// A text that is not a list of instances.
    pub fn read_instances(&self, body: &RawValue) -> serde_json::Result<StoredObjectPage<StoredInstance>> {
        let instance = |item: &RawValue| {
            let Instance { machine, revision, .. } = KubeVirt::read(&serde_json::from_str(item.get())?);
            Ok(machine.zip(revision).map(|(machine, revision)| StoredInstance { machine, revision }))
        };
        let StoredObjectPage { items, next } = read_list_page(body, instance)?;
        Ok(StoredObjectPage { items: items.into_iter().flatten().collect(), next })
    }

    /// The label selector of instances that belong to pools; `None` on a platform whose machines tell which
    /// revision their guests have.
    pub fn instance_selector(&self) -> Option<&'static str> {
        match self.platform {
            PlatformKind::Dvp => None,
            PlatformKind::KubeVirt => Some(kubevirt::REVISION_LABEL),
        }
    }

    /// Where the revision with this name is stored.
    pub fn revision(&self, namespace: &str, revision: &RevisionId) -> ReferencedObject {
        kubevirt::revision_at(namespace, revision.as_str())
    }

    /// Whether a stored revision of the pool has the template that the pool has.
    pub fn has_template_of(&self, pool: &Value, revision: &Value) -> bool {
        kubevirt::expansion::has_template_of(pool, revision)
    }

    /// The label selector of the machines of the pool with this UID; `None` if labels do not tell them apart.
    pub fn selector(&self, pool_uid: &str) -> Option<String> {
        match self.platform {
            PlatformKind::Dvp => Some(dvp::machine_label_selector(pool_uid)),
            PlatformKind::KubeVirt => None,
        }
    }
}

fn read_list_page<T>(
    body: &RawValue,
    read: impl Fn(&RawValue) -> serde_json::Result<T>,
) -> serde_json::Result<StoredObjectPage<T>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        metadata: Metadata,
        items: Vec<Box<RawValue>>,
    }
    #[derive(Default, Deserialize)]
    struct Metadata {
        #[serde(rename = "continue", default)]
        next: Option<String>,
    }
    let List { metadata, items } = serde_json::from_str(body.get())?;
    let items = items.iter().map(|item| read(item)).collect::<Result<_, _>>()?;
    Ok(StoredObjectPage { items, next: metadata.next.filter(|next| !next.is_empty()) })
}

/// The IP addresses in an instance of a machine, an object with the name of its machine.
///
/// # Errors
/// A text that is not an object.
pub fn instance_addresses(body: &RawValue) -> serde_json::Result<Vec<String>> {
    let Addressed { status, .. } = serde_json::from_str(body.get())?;
    Ok(status.addresses())
}

fn read_stored_machine<P: Platform>(body: &RawValue) -> serde_json::Result<StoredMachine>
where
    P::Machine: DeserializeOwned,
{
    let object: P::Machine = serde_json::from_str(body.get())?;
    let Addressed { status } = serde_json::from_str(body.get())?;
    Ok(StoredMachine {
        machine: P::read_machine(&object),
        version: object.meta().resource_version.clone().unwrap_or_default(),
        addresses: status.addresses(),
    })
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
