//! What claims read of stored pools, machines, instances and revisions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use vmpool_api::OwnerIdentity;
use vmpool_engine::model::Instance;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::{ObjectId, ParsedPool};

use crate::owner::is_owner;
use crate::removal_api::StoredApi;
use crate::stored_objects::{StoredInstance, StoredMachine, StoredObjectPage, instance_addresses};
use crate::stored_reader::StoredReader;
use crate::{
    ClaimedPlatform, InstanceOf, Instances as _, OtherController as _, Platform, ReferencedObject,
    revision_at,
};

impl StoredReader {
    /// The functions of a platform.
    pub const fn of<P: ClaimedPlatform>() -> Self {
        Self {
            platform: P::NAME,
            pool: read_stored_pool::<P>,
            machine: read_stored_machine::<P>,
            instance: read_stored_instance::<P>,
            blocker: read_blocker::<P>,
            is_owner: is_owner::<P::Pool>,
            instance_selector: P::INSTANCE_SELECTOR,
            machine_selector: P::machine_selector,
            has_template_of: P::has_template_of,
        }
    }
}

impl StoredApi {
    /// Reads a stored pool.
    ///
    /// # Errors
    /// A text that is not a pool.
    pub fn read_pool(&self, body: &RawValue) -> serde_json::Result<ParsedPool> {
        (self.reader.pool)(body)
    }

    /// Whether this pool is the controller among the owners of an object in its namespace.
    pub fn is_controlled_by(&self, owners: &[OwnerReference], pool: &ObjectId) -> bool {
        let controller = owners.iter().find(|owner| owner.controller == Some(true)).map(OwnerIdentity::of);
        controller.is_some_and(|owner| (self.reader.is_owner)(owner, pool))
    }

    /// Reads a stored machine.
    ///
    /// # Errors
    /// A text that is not a machine.
    pub fn read_machine(&self, body: &RawValue) -> serde_json::Result<StoredMachine> {
        (self.reader.machine)(body)
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
            let Instance { machine, revision, .. } = (self.reader.instance)(item)?;
            Ok(machine.zip(revision).map(|(machine, revision)| StoredInstance { machine, revision }))
        };
        let StoredObjectPage { items, next } = read_list_page(body, instance)?;
        Ok(StoredObjectPage { items: items.into_iter().flatten().collect(), next })
    }

    /// Why the platform's own controller may serve the pools, by a list of all [`StoredApi::installations`];
    /// `None` if it does not.
    ///
    /// # Errors
    /// A text that is not a list of installations.
    pub fn read_blocker(&self, installations: &RawValue) -> serde_json::Result<Option<String>> {
        (self.reader.blocker)(installations)
    }

    /// The label selector of instances that belong to pools; `None` on a platform whose machines tell which
    /// revision their guests have.
    pub fn instance_selector(&self) -> Option<&'static str> {
        self.reader.instance_selector
    }

    /// Where the revision with this name is stored.
    pub fn revision(&self, namespace: &str, revision: &RevisionId) -> ReferencedObject {
        revision_at(namespace, revision.as_str())
    }

    /// Whether a stored revision of the pool has the template that the pool has.
    pub fn has_template_of(&self, pool: &Value, revision: &Value) -> bool {
        (self.reader.has_template_of)(pool, revision)
    }

    /// The label selector of the machines of the pool with this UID; `None` if labels do not tell them apart.
    pub fn selector(&self, pool_uid: &str) -> Option<String> {
        (self.reader.machine_selector)(pool_uid)
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

fn read_stored_machine<P: Platform>(body: &RawValue) -> serde_json::Result<StoredMachine> {
    let object: P::Machine = serde_json::from_str(body.get())?;
    Ok(StoredMachine {
        machine: P::read_machine(&object),
        version: object.meta().resource_version.clone().unwrap_or_default(),
        addresses: instance_addresses(body)?,
    })
}

fn read_stored_pool<P: Platform>(body: &RawValue) -> serde_json::Result<ParsedPool> {
    Ok(P::read_pool(&serde_json::from_str(body.get())?))
}

fn read_stored_instance<P: Platform>(body: &RawValue) -> serde_json::Result<Instance> {
    let instance: InstanceOf<P> = serde_json::from_str(body.get())?;
    Ok(P::Instances::read(&instance))
}

fn read_blocker<P: Platform>(body: &RawValue) -> serde_json::Result<Option<String>> {
    #[derive(Deserialize)]
    struct Installations<T> {
        items: Vec<T>,
    }
    let Installations { items } = serde_json::from_str(body.get())?;
    Ok(P::OtherController::blocker(&items))
}
