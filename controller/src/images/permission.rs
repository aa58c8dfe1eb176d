//! The permission for accounts of other namespaces to clone an image.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Resource;
use serde_json::{Value, json};
use vmpool_diskimage::clone_permission::{self, required_clone_permission};
use vmpool_diskimage::model::ObjectKey;
use vmpool_diskimage::objects;
use vmpool_kit::write::WriteError;

use super::context::{ImageContext, ImageFacts};
use super::writes::{from_json_value, to_json_value};

/// Why the permission was not given, although an account needs it.
pub(super) type ClonePermissionConflict = Option<String>;

/// Creates, corrects or deletes the Role and the RoleBinding. Objects of another owner stay as they are:
/// their rules or their roleRef can give more than the permission to clone.
pub(super) async fn apply_clone_permission(
    context: &ImageContext,
    facts: &ImageFacts,
) -> Result<ClonePermissionConflict, WriteError> {
    let image = &facts.image;
    let name = clone_permission::clone_permission_name(&image.uid);
    let key = ObjectKey::new(&image.key.namespace, &name);
    let (role, binding) = {
        let store = context.store.lock();
        (store.roles.get(&key).cloned(), store.bindings.get(&key).cloned())
    };
    let permission = required_clone_permission(image, &facts.backing, &facts.counted.accounts);
    let foreign_role = role.as_deref().is_some_and(|role| !role.is_of(&image.uid));
    let foreign_binding = binding.as_deref().is_some_and(|binding| !binding.is_of(&image.uid));
    if foreign_role || foreign_binding {
        return Ok(permission.map(|_| clone_conflict_message(&key)));
    }
    let Some(permission) = permission else {
        // The binding first, so that no account has half of a permission.
        if let Some(uid) = binding.and_then(|found| object_uid(&*found)) {
            context.delete::<RoleBinding>(&key.namespace, &name, &uid).await?;
        }
        if let Some(uid) = role.and_then(|found| object_uid(&*found)) {
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
    if !apply_permission_object::<Role>(context, facts, &key, role.as_deref(), wanted_role, "rules").await? {
        return Ok(Some(clone_conflict_message(&key)));
    }
    let is_ours = apply_permission_object::<RoleBinding>(
        context,
        facts,
        &key,
        binding.as_deref(),
        wanted_binding,
        "subjects",
    )
    .await?;
    Ok((!is_ours).then(|| clone_conflict_message(&key)))
}

fn clone_conflict_message(key: &ObjectKey) -> String {
    format!(
        "a Role or RoleBinding {} of another owner has the name that the controller needs, so no account of another namespace \
         can clone the image; delete it",
        key.name
    )
}

fn object_uid<K: Resource>(object: &K) -> Option<String> {
    object.meta().uid.clone()
}

/// Whether the controller created the object for this image. A binding of another Role can give more than the
/// permission to clone.
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

/// Deletes the permission to clone the image with this UID, before the image is gone or after. The caches may
/// not show it yet.
pub(super) async fn withdraw_clone_permission(
    context: &ImageContext,
    namespace: &str,
    image_uid: &str,
) -> Result<(), WriteError> {
    let key = ObjectKey::new(namespace, clone_permission::clone_permission_name(image_uid));
    // The binding first, so that no account has half of a permission.
    delete_live_permission::<RoleBinding>(context, image_uid, &key).await?;
    delete_live_permission::<Role>(context, image_uid, &key).await
}

async fn delete_live_permission<K: Permission>(
    context: &ImageContext,
    image_uid: &str,
    key: &ObjectKey,
) -> Result<(), WriteError> {
    let found = context.get::<K>(key).await.map_err(|failed| WriteError::Unconfirmed(failed.to_string()))?;
    match found.filter(|found| found.is_of(image_uid)).and_then(|found| object_uid(&found)) {
        Some(uid) => context.delete::<K>(&key.namespace, &key.name, &uid).await,
        None => Ok(()),
    }
}

/// Creates the object, or corrects the field that decides, and removes the owner reference that the object
/// has from its creation. Returns false if the object belongs to another owner.
async fn apply_permission_object<K>(
    context: &ImageContext,
    facts: &ImageFacts,
    key: &ObjectKey,
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
    let now = to_json_value(found);
    let mut corrected = now.clone();
    corrected[field] = wanted[field].clone();
    if from_json_value::<K>(corrected).as_ref().map(to_json_value).map(|object| object[field].clone())
        == Some(now[field].clone())
    {
        return Ok(true);
    }
    let Some(uid) = object_uid(found) else { return Ok(true) };
    let patch = json!({ field: wanted[field] });
    match context.merge::<K>(&key.namespace, &key.name, &uid, patch).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_gone() || error.is_conflict() => Ok(true),
        Err(error) => Err(error),
    }
}
