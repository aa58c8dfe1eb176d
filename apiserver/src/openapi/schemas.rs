//! Schemas. Those of Kubernetes types contain only the fields that this API uses.

use serde_json::{Value, json};
use vmpool_platforms::removal::RemovalApi;

use super::names::{gvk, reference, schema_name};
use crate::body::MAX_TARGETS;

/// The name of the schema of `Status`.
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const STATUS_DETAILS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails";
const STATUS_CAUSE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const OWNER: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";
const MANAGED_FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// All schemas of a document.
pub(super) fn all(api: &RemovalApi) -> Value {
    let mut schemas = serde_json::Map::new();
    schemas.insert(schema_name(api, api.kind), pool(api));
    schemas.insert(schema_name(api, api.removal_kind), removal(api));
    schemas.insert(schema_name(api, api.claim_kind), claim(api));
    schemas.insert(schema_name(api, api.release_kind), release(api));
    for (name, schema) in [
        (STATUS, status()),
        (STATUS_DETAILS, status_details()),
        (STATUS_CAUSE, status_cause()),
        (LIST_META, list_meta()),
        (OBJECT_META, object_meta()),
        (OWNER, owner()),
        (MANAGED_FIELDS, managed_fields()),
        (
            TIME,
            json!({ "type": "string", "format": "date-time", "description": "A time in RFC 3339 format." }),
        ),
    ] {
        schemas.insert(name.to_owned(), schema);
    }
    schemas.into()
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number(format: &str, description: &str) -> Value {
    json!({ "type": "integer", "format": format, "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "description": description, "items": { "type": "string", "default": "" } })
}

fn map(description: &str) -> Value {
    json!({ "type": "object", "description": description,
        "additionalProperties": { "type": "string", "default": "" } })
}

fn another(schema: &str, description: &str) -> Value {
    json!({ "allOf": [reference(schema)], "description": description })
}

fn others(schema: &str, description: &str) -> Value {
    json!({ "type": "array", "description": description, "items": reference(schema) })
}

fn object(description: &str, required: &[&str], properties: &Value) -> Value {
    let mut schema = json!({ "type": "object", "description": description, "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn of_kind(mut schema: Value, kind: &Value) -> Value {
    schema["properties"]["apiVersion"] = text("Group and version of the object.");
    schema["properties"]["kind"] = text("Kind of the object.");
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    schema
}

fn pool(api: &RemovalApi) -> Value {
    let schema = object(
        &format!(
            "The metadata of a pool. Clients use it to check that the pool exists. Spec and status are in the API group \
             {}.",
            api.stored.pools.group
        ),
        &[],
        &json!({ "metadata": another(OBJECT_META, "Metadata of the pool.") }),
    );
    of_kind(schema, &gvk(api, api.kind))
}

fn removal(api: &RemovalApi) -> Value {
    let preconditions = object(
        "Conditions that must hold. Otherwise the request is refused.",
        &[],
        &json!({ "uid": text("The UID that the pool must have.") }),
    );
    let mut targets = texts(
        "Names of the machines to remove. All of them must belong to the pool. Repeated names are ignored.",
    );
    targets["minItems"] = json!(1);
    targets["maxItems"] = json!(MAX_TARGETS);
    let schema = object(
        "Removes the named machines from a pool and decrements its replicas by their number. Either all machines are removed or none. The pool does not replace the machines and deletes no other machines in their place. A machine that an earlier removal has accepted is not counted again, so requests can be repeated.",
        &["targets"],
        &json!({
            "metadata": another(OBJECT_META, "Optional. Name and namespace of the pool must match the path of the request."),
            "targets": targets,
            "targetUIDs": texts("UIDs that the machines must have, one for each target and in the same order. An empty UID is no condition."),
            "preconditions": preconditions,
            "dryRun": texts("With All, the request is checked and nothing is changed. There are no other values."),
            "force": flag("Whether protected machines are removed as well. The user needs the verb force on this subresource."),
        }),
    );
    let mut schema = of_kind(schema, &gvk(api, api.removal_kind));
    schema["additionalProperties"] = json!(false);
    schema
}

fn claim(api: &RemovalApi) -> Value {
    let schema = object(
        "Claims a machine of a pool for a time. Until then it is protected. The same user and id find the same claim again, so requests can be repeated.",
        &["id"],
        &json!({
            "metadata": another(OBJECT_META, "Ignored."),
            "id": text("The id of the claim, which the caller chooses: 1 to 128 letters, digits and the characters -_.:/"),
            "durationSeconds": number("int64", "How long the machine is claimed, in seconds, at most the maximum of the pool. Required in a request."),
            "reason": text("Why the machine is claimed, for users. At most 256 bytes."),
            "waitSeconds": number("int64", "How long the request waits for a free machine, in seconds, from 0 to 25. The default is 0."),
            "machine": machine("In a request, the name of the only machine that is accepted. In a response, the claimed machine."),
            "renew": flag("Whether the request only renews a claim and never claims another machine."),
            "dryRun": texts("With All, the request is checked and nothing is changed. There are no other values."),
            "expiresAt": another(TIME, "When the claim ends. Only in a response."),
        }),
    );
    of_kind(schema, &gvk(api, api.claim_kind))
}

fn release(api: &RemovalApi) -> Value {
    let mut then = text(
        "What happens to the machine. Keep: it stays and can be claimed again. Remove: it is removed, and replicas is decremented. Replace: it is deleted, and the controller creates another one.",
    );
    then["enum"] = json!(["Keep", "Remove", "Replace"]);
    let schema = object(
        "Releases a claimed machine.",
        &["then"],
        &json!({
            "metadata": another(OBJECT_META, "Ignored."),
            "id": text("The id of the claim. Required in a request."),
            "machineUID": text("The UID of the machine. Required in a request."),
            "then": then,
            "dryRun": texts("With All, the request is checked and nothing is changed. There are no other values."),
            "machine": machine("The released machine. Only in a response."),
            "replicas": number("int64", "The replicas of the pool after the release. Only in a response."),
        }),
    );
    of_kind(schema, &gvk(api, api.release_kind))
}

fn machine(description: &str) -> Value {
    json!({ "description": description, "x-kubernetes-preserve-unknown-fields": true })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn status() -> Value {
    let schema = object(
        "The result of a request.",
        &[],
        &json!({
            "code": number("int32", "HTTP status code."),
            "details": another(STATUS_DETAILS, "The object of the request."),
            "message": text("The result, for users."),
            "metadata": another(LIST_META, "Always empty."),
            "reason": text("Why a request failed, for programs."),
            "status": text("Success or Failure."),
        }),
    );
    of_kind(schema, &json!({ "group": "", "kind": "Status", "version": "v1" }))
}

fn status_details() -> Value {
    object(
        "The object of a request.",
        &[],
        &json!({
            "causes": others(STATUS_CAUSE, "One entry for each target."),
            "group": text("API group of the object."),
            "kind": text("Plural resource name of the object."),
            "name": text("Name of the object."),
            "retryAfterSeconds": number("int32", "How long to wait before the next attempt, in seconds."),
            "uid": text("UID of the object."),
        }),
    )
}

fn status_cause() -> Value {
    object(
        "The result for one target.",
        &[],
        &json!({
            "field": text("The field of the request."),
            "message": text("Name of the machine."),
            "reason": text("Removed: the machine is removed, and replicas was decremented for it. AlreadyRemoved: an earlier request removed it. WouldBeRemoved: the request was a dry run."),
        }),
    )
}

fn list_meta() -> Value {
    object(
        "Metadata of a response.",
        &[],
        &json!({
            "continue": text("Not used."),
            "remainingItemCount": number("int64", "Not used."),
            "resourceVersion": text("Not used."),
            "selfLink": text("Not used."),
        }),
    )
}

fn object_meta() -> Value {
    object(
        "Metadata of a stored object.",
        &[],
        &json!({
            "annotations": map("Annotations of the object."),
            "creationTimestamp": another(TIME, "When the object was created."),
            "deletionGracePeriodSeconds": number("int64", "Grace period of the deletion, in seconds."),
            "deletionTimestamp": another(TIME, "When the deletion of the object was requested."),
            "finalizers": texts("Finalizers that delay the deletion of the object."),
            "generateName": text("Prefix from which the API server generates a name."),
            "generation": number("int64", "Number of the current version of the desired state."),
            "labels": map("Labels of the object."),
            "managedFields": others(MANAGED_FIELDS, "The managers of the fields."),
            "name": text("Name of the object, unique in its namespace among the objects of its kind."),
            "namespace": text("Namespace."),
            "ownerReferences": others(OWNER, "The owners of the object."),
            "resourceVersion": text("Version of the stored object."),
            "selfLink": text("Not used."),
            "uid": text("UID of the object."),
        }),
    )
}

fn owner() -> Value {
    object(
        "An owner of an object.",
        &["apiVersion", "kind", "name", "uid"],
        &json!({
            "apiVersion": text("Group and version of the owner."),
            "blockOwnerDeletion": { "type": "boolean", "description": "Whether a foreground deletion of the owner waits for this object." },
            "controller": { "type": "boolean", "description": "Whether the owner is the controller of this object." },
            "kind": text("Kind of the owner."),
            "name": text("Name of the owner."),
            "uid": text("UID of the owner."),
        }),
    )
}

fn managed_fields() -> Value {
    object(
        "The fields of one manager.",
        &[],
        &json!({
            "apiVersion": text("API version of the fields."),
            "fieldsType": text("Format of the fields."),
            "fieldsV1": { "type": "object", "description": "The fields." },
            "manager": text("The manager."),
            "operation": text("Apply or Update."),
            "subresource": text("Subresource through which the fields were set."),
            "time": another(TIME, "When the fields were last set."),
        }),
    )
}
