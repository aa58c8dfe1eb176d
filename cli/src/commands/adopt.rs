//! `adopt`: a pool that was restored from a backup gets the machines, disks and revisions that were restored
//! with it.
//!
//! A restored object has no owner, since its owner has another UID now. Until the last step, which records on
//! the pool that the machines are its own, the controller creates and deletes nothing for the pool. An
//! interrupted command is therefore repeated.

pub(crate) mod image;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::model::{DiskDraft, ObjectId};
use vmpool_engine::{ParsedPool, Uid, copied_pool};
use vmpool_platforms::{ClientPlatform, DiskOf, Disks, Platform, PoolPart, former_pool, is_controlled_by};

use crate::arguments::AdoptArguments;
use crate::cluster::{UserClusterClient, name_of};
use crate::dry_run::WriteMode;
use crate::output::print_text;
use crate::pool::decode_pool;

/// Gives the pool the objects of the former one, or begins without them.
///
/// # Errors
/// The pool is no copy, the machines are too many or are missing, or a request failed.
pub(crate) async fn adopt_pool_objects<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &AdoptArguments,
) -> Result<()> {
    let (object, facts) = decode_pool::<P>(&pool)?;
    let name = facts.id.name.clone();
    let former = former_pool(object.meta(), P::MACHINES_OF, &facts.id).with_context(|| {
        format!(
            "pool {name} does not record that it is a copy of another pool. If it is, annotate it with {}={name}/UID, where UID is that of \
             the former pool in the backup",
            P::MACHINES_OF
        )
    })?;
    if !arguments.without_machines {
        let restored = RestoredObjects::find::<P>(cluster, &facts, &former, &arguments.machines).await?;
        ensure!(
            restored.already_adopted > 0 || !restored.machines.is_empty(),
            "namespace {} has no machine of the former pool {name} (UID {former}): restore the machines first, or begin without \
             them with --without-machines; nothing was changed",
            cluster.namespace
        );
        let count = restored.machines.len().saturating_add(restored.already_adopted);
        ensure!(
            count <= facts.desired,
            "pool {name} would have {count} machines, and wants {}: the controller would delete the others. Scale it to {count} \
             first, or name the machines to adopt; nothing was changed",
            facts.desired
        );
        restored.adopt::<P>(cluster, &object, &facts, &former, arguments.dry_run.mode).await?;
    }
    let record = json!({ "metadata": {
        "uid": pool["metadata"]["uid"],
        "annotations": { P::MACHINES_OF: copied_pool::machines_record(&facts.id) },
    }});
    cluster.patch::<P::Pool>(&name, &Patch::Merge(record), arguments.dry_run.mode).await?;
    if arguments.dry_run.is_on() {
        return print_text("nothing was changed (server dry run)\n");
    }
    print_text(&format!("pool {name}: the controller manages it from now on\n"))
}

/// What a backup brought back of a former pool, without owners.
struct RestoredObjects {
    machines: Vec<Value>,
    disks: Vec<Value>,
    revisions: Vec<Value>,
    /// Number of machines that the pool owns.
    already_adopted: usize,
}

impl RestoredObjects {
    async fn find<P: ClientPlatform>(
        cluster: &UserClusterClient,
        pool: &ParsedPool,
        former: &Uid,
        names: &[String],
    ) -> Result<Self> {
        let all = cluster.list::<P::Machine>(None).await?;
        let is_owned = |machine: &&Value| is_controlled_by::<P::Pool>(&metadata_of(machine), &pool.id);
        let already_adopted = all.iter().filter(is_owned).count();
        let is_named =
            |machine: &Value| names.is_empty() || names.iter().any(|name| name == name_of(machine));
        let mut machines = filter_ownerless::<P>(all, pool, former, PoolPart::Machine);
        if let Some(unknown) =
            names.iter().find(|name| !machines.iter().any(|found| name_of(found) == **name))
        {
            bail!(
                "machine {unknown} is not one of the former pool (UID {former}), or has an owner: nothing was changed"
            );
        }
        machines.retain(is_named);
        let disks = if <P::Disks as Disks<P::Pool, P::Machine>>::EXIST {
            let all = cluster.list::<DiskOf<P>>(None).await?;
            // The machine that owned an ephemeral disk is restored, too, under another UID.
            filter_ownerless::<P>(all, pool, former, PoolPart::Disk)
        } else {
            Vec::new()
        };
        let revisions = cluster.list::<ControllerRevision>(None).await?;
        let revisions = filter_ownerless::<P>(revisions, pool, former, PoolPart::Revision);
        Ok(Self { machines, disks, revisions, already_adopted })
    }

    /// The machines come last: with them the pool has its machines, and an interrupted command finds them
    /// missing.
    async fn adopt<P: ClientPlatform>(
        &self,
        cluster: &UserClusterClient,
        object: &P::Pool,
        pool: &ParsedPool,
        former: &Uid,
        mode: WriteMode,
    ) -> Result<()> {
        let say = |kind: &str, object: &Value| {
            let done = if mode.is_dry_run() { "would be adopted" } else { "adopted" };
            print_text(&format!("{kind} {}: {done}\n", name_of(object)))
        };
        for revision in &self.revisions {
            let patch = ownership_patch::<P>(revision, pool, former);
            cluster.merge_at_version::<ControllerRevision>(revision, patch, mode).await?;
            say("revision", revision)?;
        }
        for disk in &self.disks {
            let Some(patch) = disk_ownership_patch::<P>(disk, object, &self.machines)? else {
                print_text(&format!(
                    "disk {}: left as it is, because the pool has no disk template for it, or no restored machine uses it\n",
                    name_of(disk)
                ))?;
                continue;
            };
            cluster.merge_at_version::<DiskOf<P>>(disk, patch, mode).await?;
            say("disk", disk)?;
        }
        for machine in &self.machines {
            let mut patch = ownership_patch::<P>(machine, pool, former);
            json_patch::merge(&mut patch, &P::managed_labels(object));
            cluster.merge_at_version::<P::Machine>(machine, patch, mode).await?;
            say("machine", machine)?;
        }
        Ok(())
    }
}

/// The objects of the former pool that nothing controls. A backup can contain the owner references to the
/// former pool, which is gone.
fn filter_ownerless<P: ClientPlatform>(
    mut objects: Vec<Value>,
    pool: &ParsedPool,
    former: &Uid,
    part: PoolPart,
) -> Vec<Value> {
    objects.retain(|object| {
        let metadata = metadata_of(object);
        let mut owners = metadata.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let is_free = controller.is_none_or(|owner| owner.uid == former.as_str());
        is_free
            && metadata.deletion_timestamp.is_none()
            && P::belonged_to_former_pool(pool, former, part, object)
    });
    objects
}

/// The merge patch that makes the pool the owner, and replaces the UID of the former pool in labels.
fn ownership_patch<P: Platform>(object: &Value, pool: &ParsedPool, former: &Uid) -> Value {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut owners: Vec<Value> = owners
        .filter(|owner| owner["controller"] != true && owner["uid"] != former.as_str())
        .cloned()
        .collect();
    owners.push(json!({
        "apiVersion": P::Pool::api_version(&()),
        "kind": P::Pool::kind(&()),
        "name": &*pool.id.name,
        "uid": pool.id.uid.as_str(),
        "controller": true,
        "blockOwnerDeletion": true,
    }));
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let of_former = labels.filter(|(_, value)| *value == former.as_str());
    let labels: serde_json::Map<String, Value> =
        of_former.map(|(key, _)| (key.clone(), pool.id.uid.as_str().into())).collect();
    json!({ "metadata": { "ownerReferences": owners, "labels": labels } })
}

/// The merge patch that gives a disk its owner: its machine, or the pool, as its template says. `None` if it
/// has no template, or if its machine is not restored.
fn disk_ownership_patch<P: Platform>(
    disk: &Value,
    pool: &P::Pool,
    machines: &[Value],
) -> Result<Option<Value>> {
    let object: DiskOf<P> = decode_object(disk)?;
    let facts = P::Disks::read(&object);
    let Some(template) = facts.template.clone() else { return Ok(None) };
    let mut user = None;
    for machine in machines {
        let machine = P::read_machine(&decode_object(machine)?);
        if machine.disks.iter().any(|used| used.disk == facts.id.name) {
            user = Some(machine.id);
        }
    }
    let draft = DiskDraft::new(facts.id.name.clone(), template);
    // The pool owns a retained disk, which can be free. Only an ephemeral one needs its machine.
    let user = user.unwrap_or_else(|| ObjectId::new("", ""));
    let patch = P::Disks::adopt(pool, &object, &user, &draft);
    let has_owner = |patch: &Value| {
        let mut owners = patch["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.all(|owner| owner["uid"] != "")
    };
    Ok(patch.filter(has_owner))
}

fn decode_object<T: serde::de::DeserializeOwned>(object: &Value) -> Result<T> {
    serde_json::from_value(object.clone()).map_err(|error| anyhow!("the response cannot be read: {error}"))
}

fn metadata_of(object: &Value) -> ObjectMeta {
    serde_json::from_value(object["metadata"].clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
