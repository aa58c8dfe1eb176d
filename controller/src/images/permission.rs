//! The permission for accounts of other namespaces to clone an image.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Resource;
use serde_json::{Value, json};
use vmpool_diskimage::clone_permission::{self, wanted};
use vmpool_diskimage::model::Key;
use vmpool_diskimage::objects;

use super::context::{Context, Facts};
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
    let (role, binding) = {
        let store = context.store.lock();
        (store.roles.get(&key).cloned(), store.bindings.get(&key).cloned())
    };
    let permission = wanted(image, &facts.backing, &facts.counted.accounts);
    let foreign_role = role.as_deref().is_some_and(|role| !role.is_of(&image.uid));
    let foreign_binding = binding.as_deref().is_some_and(|binding| !binding.is_of(&image.uid));
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

/// Whether the controller created the object for this image. A binding of another Role can give more than the permission to clone.
trait Permission: vmpool_platforms::ApiObject {
    fn is_of(&self, image_uid: &str) -> bool {
        objects::is_of_image(self.meta(), image_uid)
    }
}

impl Permission for Role {}

impl Permission for RoleBinding {
    fn is_of(&self, image_uid: &str) -> bool {
        let is_for_role =
            self.role_ref.kind == "Role" && self.metadata.name.as_ref() == Some(&self.role_ref.name);
        is_for_role && objects::is_of_image(&self.metadata, image_uid)
    }
}

/// Deletes the permission to clone the image with this UID, before the image is gone or after. The caches may not show it yet.
pub(super) async fn withdraw(context: &Context, namespace: &str, image_uid: &str) -> Result<(), WriteError> {
    let key = Key::new(namespace, clone_permission::name(image_uid));
    // The binding first, so that no account has half of a permission.
    delete_live::<RoleBinding>(context, image_uid, &key).await?;
    delete_live::<Role>(context, image_uid, &key).await
}

async fn delete_live<K: Permission>(context: &Context, image_uid: &str, key: &Key) -> Result<(), WriteError> {
    let found = context.get::<K>(key).await.map_err(|failed| WriteError::Unconfirmed(failed.to_string()))?;
    match found.filter(|found| found.is_of(image_uid)).and_then(|found| uid(&found)) {
        Some(uid) => context.delete::<K>(&key.namespace, &key.name, &uid).await,
        None => Ok(()),
    }
}

/// Creates the object, or corrects the field that decides, and removes the owner reference that the object has from its creation.
/// Returns false if the object belongs to another owner.
async fn apply<K>(
    context: &Context,
    facts: &Facts,
    key: &Key,
    found: Option<&K>,
    wanted: Value,
    field: &str,
) -> Result<bool, WriteError>
where
    K: Permission + serde::Serialize,
{
    let Some(found) = found else {
        let created = match context.create::<K>(key, wanted).await {
            Ok(created) => created,
            // The watch shows an own one soon. It never shows one without our label.
            Err(error) if error.is_already_exists() => match context.get::<K>(key).await {
                Ok(Some(found)) if !found.is_of(&facts.image.uid) => return Ok(false),
                Ok(Some(found)) => found,
                Ok(None) => return Ok(true),
                Err(failed) => return Err(WriteError::Unconfirmed(failed.to_string())),
            },
            Err(error) => return Err(error),
        };
        context.disown(key, &created, &facts.image.uid).await?;
        return Ok(true);
    };
    // If the object has changed, its next event repeats this.
    context.disown(key, found, &facts.image.uid).await?;
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
