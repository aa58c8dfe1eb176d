//! The permission for accounts of other namespaces to clone an image.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Resource;
use serde_json::{Value, json};
use vmpool_api::diskimage::labels::IMAGE_UID;
use vmpool_diskimage::clone_permission::{self, wanted};
use vmpool_diskimage::model::Key;
use vmpool_diskimage::objects;

use super::context::{Context, Facts};
use super::store::owner_of;
use super::writes::{json, typed};
use crate::write::WriteError;

/// Why the permission was not given, although an account needs it.
pub(super) type Conflict = Option<String>;

/// Creates, corrects or deletes the Role and the RoleBinding. Objects of another owner stay as they are: their rules or their
/// roleRef can give more than the permission to clone.
pub(super) async fn settle(context: &Context, facts: &Facts) -> Result<Conflict, WriteError> {
    let image = &facts.image;
    let name = clone_permission::name(&image.uid);
    let key = Key::new(&image.key.namespace, &name);
    let (mut role, mut binding) = {
        let store = context.store.lock();
        (store.roles.get(&key).cloned(), store.bindings.get(&key).cloned())
    };
    // Kubernetes has removed the owner, because a user deletes the image with `--cascade=orphan`. They would outlive the image.
    let is_for_role =
        |binding: &&RoleBinding| binding.role_ref.kind == "Role" && binding.role_ref.name == name;
    if let Some(uid) = orphaned(binding.as_deref().filter(is_for_role), image) {
        context.delete::<RoleBinding>(&key.namespace, &name, &uid).await?;
        binding = None;
    }
    if let Some(uid) = orphaned(role.as_deref(), image) {
        context.delete::<Role>(&key.namespace, &name, &uid).await?;
        role = None;
    }
    let permission = wanted(image, &facts.counted.accounts);
    let foreign_role = role.as_deref().is_some_and(|role| !is_ours(role, image));
    let foreign_binding = binding.as_deref().is_some_and(|binding| !is_ours(binding, image));
    if foreign_role || foreign_binding {
        return Ok(permission.map(|_| conflict(&key)));
    }
    let Some(permission) = permission else {
        // The binding first, so that no account has half of a permission.
        if let Some(uid) = binding.and_then(|found| uid(&*found)) {
            context.delete::<RoleBinding>(&key.namespace, &name, &uid).await?;
        }
        if let Some(uid) = role.and_then(|found| uid(&*found)) {
            context.delete::<Role>(&key.namespace, &name, &uid).await?;
        }
        return Ok(None);
    };
    if !permission.left_out.is_empty() {
        let left_out = permission.left_out.len();
        let first = permission.left_out.first();
        tracing::warn!(image = %image.key, left_out, ?first, "service accounts cannot clone the image: their names are invalid, or they are too many");
    }
    // The garbage collector deletes what an image owns that is deleted in the foreground. It would do so again and again.
    let in_foreground = |name: &String| name == "foregroundDeletion";
    let is_collected = facts.object.metadata.finalizers.iter().flatten().any(in_foreground);
    if image.deleting && is_collected {
        return Ok(None);
    }
    if context.store.lock().is_terminating(&key.namespace) {
        // Kubernetes deletes all objects of the namespace, and refuses new ones.
        return Ok(None);
    }
    let wanted_role = objects::clone_role(&facts.object, &permission);
    let wanted_binding = objects::clone_role_binding(&facts.object, &permission);
    if !apply::<Role>(context, facts, &key, role.as_deref(), wanted_role, "rules").await? {
        return Ok(Some(conflict(&key)));
    }
    let is_ours =
        apply::<RoleBinding>(context, facts, &key, binding.as_deref(), wanted_binding, "subjects").await?;
    Ok((!is_ours).then(|| conflict(&key)))
}

fn conflict(key: &Key) -> String {
    format!(
        "a Role or RoleBinding {} of another owner has the name that the controller needs, so no account of another namespace \
         can clone the image; delete it",
        key.name
    )
}

fn uid<K: Resource>(object: &K) -> Option<String> {
    object.meta().uid.clone()
}

/// The UID of an object that the controller has created for this image, and that has no owner any more.
fn orphaned<K: Resource>(object: Option<&K>, image: &vmpool_diskimage::model::Image) -> Option<String> {
    let metadata = object?.meta();
    let is_of_image = metadata.labels.as_ref()?.get(IMAGE_UID) == Some(&image.uid);
    let has_owner = metadata.owner_references.iter().flatten().next().is_some();
    metadata.uid.clone().filter(|_| is_of_image && !has_owner)
}

fn is_ours<K: Resource>(object: &K, image: &vmpool_diskimage::model::Image) -> bool {
    let mut owners = object.meta().owner_references.iter().flatten();
    owners.any(|owner| owner.uid == image.uid) && owner_of(object).contains(&image.key)
}

/// Creates the object, or corrects the field that decides. Returns false if the object belongs to another owner.
async fn apply<K>(
    context: &Context,
    facts: &Facts,
    key: &Key,
    found: Option<&K>,
    wanted: Value,
    field: &str,
) -> Result<bool, WriteError>
where
    K: vmpool_platforms::ApiObject + serde::Serialize + PartialEq,
{
    let Some(found) = found else {
        return match context.create::<K>(key, wanted).await {
            Ok(_) => Ok(true),
            // The watch shows an own one soon. It never shows one without our label.
            Err(error) if error.is_already_exists() => match context.get::<K>(key).await {
                Ok(found) => Ok(found.is_none_or(|found| is_ours(&found, &facts.image))),
                Err(failed) => Err(WriteError::Unconfirmed(failed.to_string())),
            },
            Err(error) => Err(error),
        };
    };
    // The API server fills in absent fields, so the typed forms are compared.
    let now = json(found);
    let mut corrected = now.clone();
    corrected[field] = wanted[field].clone();
    if typed::<K>(corrected).as_ref().map(json).map(|object| object[field].clone())
        == Some(now[field].clone())
    {
        return Ok(true);
    }
    let Some(uid) = uid(found) else { return Ok(true) };
    let patch = json!({ field: wanted[field] });
    match context.merge::<K>(&key.namespace, &key.name, &uid, patch).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_gone() || error.is_conflict() => Ok(true),
        Err(error) => Err(error),
    }
}
