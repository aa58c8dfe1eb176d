//! Objects that the controller created and that do not belong to their pool: what was changed, and by which
//! client.

use serde::Deserialize;
use serde_json::Value;
use vmpool_engine::limits::clip_name;
use vmpool_engine::membership::losses::{LossKind, MOST_LOSSES};
use vmpool_engine::model::Exclusion;
use vmpool_engine::{Disk, ObjectId};
use vmpool_platforms::{ApiObject, DiskOf, Platform};

use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;

/// An object with its managed fields only.
#[derive(Deserialize)]
struct Managed {
    metadata: ManagedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedMetadata {
    #[serde(default)]
    managed_fields: Vec<ManagedFields>,
}

/// The fields that one field manager set.
#[derive(Deserialize)]
struct ManagedFields {
    #[serde(default)]
    manager: String,
    #[serde(rename = "fieldsV1", default)]
    fields: Value,
}

/// Why a created machine does not belong to the pool, and what follows.
pub(crate) async fn machine_lost<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    exclusion: &Exclusion,
    kind: LossKind,
) -> String {
    let changer = find_changing_client::<P, P::Machine>(context, pool, &machine.name, exclusion, kind).await;
    format!(
        "the controller created machine {machine}, which does not belong to the pool: {exclusion}, because {changer} \
         changed it; {}",
        loss_consequence("machines")
    )
}

/// The same for a disk.
pub(crate) async fn disk_lost<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    disk: &Disk,
    kind: LossKind,
) -> String {
    let exclusion = Exclusion::Owner { found: disk.owner.as_ref().map(|owner| owner.id.to_string()) };
    let changer = find_changing_client::<P, DiskOf<P>>(context, pool, &disk.id.name, &exclusion, kind).await;
    format!(
        "the controller created disk {}, which does not belong to the pool: {exclusion}, because {changer} changed \
         it; {}",
        disk.id,
        loss_consequence("disks")
    )
}

/// Why the machine of a dry run would not belong to the pool.
pub(crate) fn rehearsal_lost(exclusion: &Exclusion) -> String {
    format!(
        "a machine that the controller creates would not belong to the pool: {exclusion}, because an admission policy or \
         webhook changes it; {}",
        loss_consequence("machines")
    )
}

/// The event about a loss.
pub(crate) fn loss_event(reason: EventReason, name: &str, message: &str) -> PoolEvent {
    PoolEvent { reason, name: name.to_owned(), note: message.to_owned() }
}

fn loss_consequence(what: &str) -> String {
    format!(
        "after {MOST_LOSSES} such {what} in a row the controller creates no more, and tries again when the spec of the \
         pool changes, and from time to time"
    )
}

/// The client that changed the object, as far as its managed fields show it. They show what clients set and
/// not what they removed, and they attribute the changes of an admission policy to the client of the request.
async fn find_changing_client<P: Platform, K: ApiObject>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    name: &str,
    exclusion: &Exclusion,
    kind: LossKind,
) -> String {
    let unknown = match kind {
        LossKind::AtBirth => "an admission policy or webhook",
        LossKind::Later => "another client",
    };
    let own = context.leader.writer.field_manager();
    let live = context.get_text::<K>(&pool.facts.namespace, name).await;
    let managed = live.ok().flatten().and_then(|body| serde_json::from_slice::<Managed>(body.bytes()).ok());
    let entries = managed.map(|managed| managed.metadata.managed_fields).unwrap_or_default();
    let found =
        entries.iter().find(|entry| entry.manager != own && sets_excluding_field(&entry.fields, exclusion));
    match found {
        Some(entry) => format!("the client with field manager {:?}", clip_name(&entry.manager)),
        None => unknown.to_owned(),
    }
}

/// Whether the fields of a manager include what keeps the object out of the pool.
fn sets_excluding_field(fields: &Value, exclusion: &Exclusion) -> bool {
    let metadata = &fields["f:metadata"];
    match exclusion {
        Exclusion::Owner { found } => found.is_some() && !metadata["f:ownerReferences"].is_null(),
        Exclusion::Label { key, .. } => !metadata["f:labels"][format!("f:{key}")].is_null(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_managed_fields_show_which_client_set_a_label_or_an_owner() {
        let label = Exclusion::Label { key: "team".into(), wanted: "x".into(), found: Some("y".into()) };
        let owner = Exclusion::Owner { found: Some("uid".into()) };
        let fields = json!({ "f:metadata": { "f:labels": { ".": {}, "f:team": {} } } });
        assert!(sets_excluding_field(&fields, &label) && !sets_excluding_field(&fields, &owner));
        let fields = json!({ "f:metadata": { "f:ownerReferences": { "k:{\"uid\":\"uid\"}": {} } } });
        assert!(!sets_excluding_field(&fields, &label) && sets_excluding_field(&fields, &owner));
        assert!(
            !sets_excluding_field(&json!(null), &label)
                && !sets_excluding_field(&json!([]), &Exclusion::Owner { found: None })
        );
    }
}
