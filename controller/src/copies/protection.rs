//! The finalizer of instance types and preferences: one pass of an object.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::Patch;
use kube::{Api, Resource};
use serde_json::Value;
use vmpool_api::ObjectKey;
use vmpool_engine::ObjectId;
use vmpool_kit::definitions::list_defined;
use vmpool_kit::events::EventSubject;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::object::object_key;
use vmpool_kit::queue::Requeue;
use vmpool_kit::sink::Watched;
use vmpool_kit::watch::{WatchError, WatchScope};
use vmpool_kit::write::WriteError;
use vmpool_platforms::instancetype::copies::{Document, Machine, Pool, Revision};
use vmpool_platforms::instancetype::type_protection::{
    self, InstanceTypeKind, ProtectedType, ProtectionStep,
};
use vmpool_platforms::kubevirt::KubeVirt;
use vmpool_platforms::kubevirt::protection::{has_pinned_type, may_need_type};
use vmpool_platforms::{
    Configuration, FetchedObjects, OtherController, Platform, ReferencedObject, Resolution,
};
use vmpool_runtime::telemetry::with_causes;

use super::context::{
    CopyContext, CopyReadError, KubeVirtInstallation, TypeReadSource, describe_machine as machine_name,
    describe_pool as pool_name,
};
use super::pass;
use super::store::is_owned_by;
use super::types::{TypeKey, type_collection_path};
use crate::metrics::WriteKind;
use crate::plain_events::publish_plain_event;

/// The wait after a failed request, and after a conflict that no event resolves.
const AGAIN: Duration = Duration::from_secs(2);
/// The most namespaces that one check reads.
const MAX_NAMESPACES: usize = 50;

/// Runs a pass.
pub(super) async fn reconcile_type_finalizer(context: &CopyContext, key: &TypeKey) -> Requeue {
    let Some(object) = context.types.document(key) else {
        context.blocked_types.remove(key);
        return Requeue::Never;
    };
    let (patch, forced) = match type_protection::next_protection_step(&object) {
        ProtectionStep::Nothing => {
            // The finalizer can be gone, or the object can be a new one of the same name.
            context.blocked_types.remove(key);
            return Requeue::Never;
        }
        ProtectionStep::Protect(patch) => (patch, false),
        ProtectionStep::Force => (type_protection::finalizer_removal_merge_patch(&object), true),
        ProtectionStep::Examine => match needed_by(context, key, &object).await {
            Ok(needed_by) if needed_by.is_empty() => {
                (type_protection::finalizer_removal_merge_patch(&object), false)
            }
            Ok(needed_by) => {
                return Requeue::After(report_blocked_deletion(context, key, &object, &needed_by));
            }
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(object = ?key, error, "whether an object can be released is unknown");
                return Requeue::After(AGAIN);
            }
        },
    };
    match patch_type_finalizers(context, key, patch).await {
        Ok(()) => {
            context.blocked_types.remove(key);
            if forced {
                let note = "the object was released without the check for machines and pools that need it"
                    .to_owned();
                publish_plain_event(
                    &context.leader.events,
                    &type_event_subject(key, &object),
                    "ForcedRelease",
                    false,
                    note,
                );
            }
            Requeue::Never
        }
        Err(error) if error.is_gone() => Requeue::Never,
        Err(error) => {
            tracing::debug!(object = ?key, %error, "a write of a finalizer failed");
            Requeue::After(error.retry_after().unwrap_or(AGAIN))
        }
    }
}

async fn patch_type_finalizers(context: &CopyContext, key: &TypeKey, patch: Value) -> Result<(), WriteError> {
    let name = &key.object.name;
    let kind = WriteKind::PatchInstancetype;
    let _: Value =
        context.leader.writer.patch(kind, type_collection_path(key), name, None, Patch::Merge(patch)).await?;
    Ok(())
}

/// Reports what needs an object. Returns the pause until the next check.
fn report_blocked_deletion(
    context: &CopyContext,
    key: &TypeKey,
    object: &Value,
    needed_by: &[String],
) -> Duration {
    let (pause, is_new) = context.blocked_types.note(key, needed_by, context.leader.env.uptime());
    if is_new {
        let named = type_protection::abbreviate_names(needed_by);
        tracing::info!(object = ?key, needed_by = named, "machines and pools without a copy keep an object from being deleted");
        let note = type_protection::blocked_deletion_message(key.kind, needed_by);
        publish_plain_event(
            &context.leader.events,
            &type_event_subject(key, object),
            "DeletionBlocked",
            true,
            note,
        );
    }
    pause
}

fn type_event_subject(
    TypeKey { kind, object: ObjectKey { namespace, name } }: &TypeKey,
    object: &Value,
) -> EventSubject {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    EventSubject {
        api_version: object["apiVersion"].as_str().unwrap_or_default().to_owned(),
        kind: kind.as_str().to_owned(),
        namespace: namespace.as_str().into(),
        id: ObjectId::new(name, uid),
    }
}

/// The kinds and names of the machines and the pools that need an object, from lists that begin now.
async fn needed_by(context: &CopyContext, key: &TypeKey, object: &Value) -> Result<Vec<String>, WatchError> {
    let TypeKey { kind, object: ObjectKey { namespace, .. } } = key;
    let Some(protected) = ProtectedType::read(object) else { return Ok(Vec::new()) };
    let namespace =
        if kind.is_cluster() { context.leader.namespace.as_deref() } else { Some(namespace.as_str()) };
    let (mut needed_by, mut open) = (Vec::new(), Vec::new());
    visit_objects_live::<Machine>(context, namespace, |machine| {
        let key = object_key(&machine);
        // Another controller does not make a lost copy again, so its machine does not use the object any
        // more.
        let exists = |revision: &str| {
            context.scope.policy.is_none()
                || context.revisions.get(&ObjectKey::new(&*key.namespace, revision)).is_some()
        };
        let document = machine.document();
        if protected.needed_by_machine(&document, exists) {
            match protected.may_be_inferred_by_machine(&document) {
                // Another controller infers no name after admission.
                true if context.scope.policy.is_none() => {}
                true => open.push(machine),
                // The watch does not show copies without labels.
                false
                    if type_protection::has_copy_failure(&document) || protected.records_copy(&document) =>
                {
                    open.push(machine);
                }
                false => needed_by.push((key.namespace.clone(), machine_name(&key))),
            }
        }
    })
    .await?;
    for machine in open {
        let (key, document) = (object_key(&machine), machine.document());
        // A machine that can get no copy of the object would keep it for ever. If this is unknown, the
        // machine may need it.
        let is_copied = match pass::plan_expected_copies(context, &key, &machine).await {
            Ok(plan) => protected.is_copied_by(&document, &plan),
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(machine = %key, error, "whether a machine fits an object that is being deleted is unknown");
                true
            }
        };
        if is_copied {
            needed_by.push((key.namespace.clone(), machine_name(&key)));
        }
    }
    if !context.scope.reconciles_pools() {
        // Pools get copies from the controller that reconciles them, and that is another one, or none. A pool
        // without a copy would keep the object for ever.
        return Ok(outside_deleted_namespaces(context, *kind, needed_by).await);
    }
    let mut pools: BTreeMap<String, Vec<Pool>> = BTreeMap::new();
    visit_objects_live::<Pool>(context, namespace, |pool| {
        if may_need_type(&pool.document(), &protected) {
            pools.entry(object_key(&pool).namespace).or_default().push(pool);
        }
    })
    .await?;
    let has_failed = pools.values().flatten().any(|pool| type_protection::is_failed_pool(&pool.document()));
    let configuration =
        if has_failed { read_kubevirt_configuration(context).await? } else { Configuration::default() };
    for (namespace, mut pools) in pools {
        visit_objects_live::<Revision>(context, Some(&namespace), |revision| {
            let content = &revision.document()["data"];
            pools.retain(|pool| {
                !(is_owned_by(revision.meta(), pool)
                    && has_pinned_type(&pool.document(), content, &protected))
            });
        })
        .await?;
        for pool in pools {
            let key = object_key(&pool);
            let document = pool.document();
            if !type_protection::is_failed_pool(&document) {
                needed_by.push((key.namespace.clone(), pool_name(&key)));
                continue;
            }
            // As with machines.
            let is_copied = match expected_revision_content(context, &key, &document, &configuration).await {
                Ok(content) => content.is_some_and(|content| protected.is_copied_in(&content)),
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::warn!(pool = %key, error, "whether a pool fits an object that is being deleted is unknown");
                    true
                }
            };
            if is_copied {
                needed_by.push((key.namespace.clone(), pool_name(&key)));
            }
        }
    }
    Ok(outside_deleted_namespaces(context, *kind, needed_by).await)
}

/// The kinds and names of what needs an object, without those in namespaces that are being deleted: the API
/// server stores no copy there, and deletes what is there, but only after all Pods of the namespace. An
/// object of such a namespace is deleted at the same time as what needs it, so only objects of the cluster
/// could wait for the Pods.
async fn outside_deleted_namespaces(
    context: &CopyContext,
    kind: InstanceTypeKind,
    needed_by: Vec<(String, String)>,
) -> Vec<String> {
    let mut deleted: BTreeMap<String, bool> = BTreeMap::new();
    for (namespace, _) in needed_by.iter().filter(|_| kind.is_cluster()) {
        if deleted.contains_key(namespace) || deleted.len() == MAX_NAMESPACES {
            continue;
        }
        let collection = "/api/v1/namespaces".to_owned();
        let reference = ReferencedObject {
            kind: "Namespace",
            collection,
            name: namespace.clone(),
            cross_namespace: None,
        };
        let is_deleted = match context.read_live(&reference).await {
            Ok(object) => object.is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null()),
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(namespace, error, "whether a namespace is being deleted is unknown");
                false
            }
        };
        deleted.insert(namespace.clone(), is_deleted);
    }
    let is_kept = |namespace: &String| deleted.get(namespace) != Some(&true);
    let kept = needed_by.into_iter().filter(|(namespace, _)| is_kept(namespace));
    let mut kept: Vec<String> = kept.map(|(_, what)| what).collect();
    kept.sort();
    kept
}

/// What the installations of the platform's own controller configure.
async fn read_kubevirt_configuration(context: &CopyContext) -> Result<Configuration, WatchError> {
    let mut installations = Vec::new();
    let objects = Api::<KubeVirtInstallation>::all(context.leader.client.clone());
    list_defined(&objects, WatchScope::default(), |found| installations.push(found)).await?;
    Ok(<KubeVirt as Platform>::OtherController::configuration(&installations))
}

/// The content of the revision that the controller would store now for a pool; `None` if it would store none.
async fn expected_revision_content(
    context: &CopyContext,
    ObjectKey { namespace, .. }: &ObjectKey,
    pool: &Value,
    configuration: &Configuration,
) -> Result<Option<Value>, CopyReadError> {
    let resolve = |found: &FetchedObjects| type_protection::resolve_current_pins(pool, configuration, found);
    Ok(match context.decide(namespace, TypeReadSource::Cache, resolve).await? {
        Resolution::Resolved(content) | Resolution::Partial(content, ..) => Some(content),
        Resolution::Unresolved(..) => None,
    })
}

/// Reads all objects of a kind from the API server.
async fn visit_objects_live<K: Document + Watched>(
    context: &CopyContext,
    namespace: Option<&str>,
    visit: impl FnMut(K),
) -> Result<(), WatchError> {
    list_defined(&api_for_namespace::<K>(&context.leader.client, namespace), WatchScope::default(), visit)
        .await
}
