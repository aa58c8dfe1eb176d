//! Schemas. Those of Kubernetes types contain only the fields that this API uses.

use serde_json::{Value, json};
use vmpool_platforms::removal::RemovalApi;

use super::names::{group_version_kind, schema_name, schema_reference};
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
pub(super) fn document_schemas(api: &RemovalApi) -> Value {
    let mut schemas = serde_json::Map::new();
    schemas.insert(schema_name(api, api.kind), pool_schema(api));
    schemas.insert(schema_name(api, api.removal_kind), removal_schema(api));
    schemas.insert(schema_name(api, api.claim_kind), claim_schema(api));
    schemas.insert(schema_name(api, api.release_kind), release_schema(api));
    for (name, schema) in [
        (STATUS, status_schema()),
        (STATUS_DETAILS, status_details_schema()),
        (STATUS_CAUSE, status_cause_schema()),
        (LIST_META, list_meta_schema()),
        (OBJECT_META, object_meta_schema()),
        (OWNER, owner_reference_schema()),
        (MANAGED_FIELDS, managed_fields_schema()),
        (
            TIME,
            json!({ "type": "string", "format": "date-time", "description": "A time in RFC 3339 format." }),
        ),
    ] {
        schemas.insert(name.to_owned(), schema);
    }
    schemas.into()
}

fn string_schema(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn integer_schema(format: &str, description: &str) -> Value {
    json!({ "type": "integer", "format": format, "description": description })
}

fn string_list_schema(description: &str) -> Value {
    json!({ "type": "array", "description": description, "items": { "type": "string", "default": "" } })
}

fn string_map_schema(description: &str) -> Value {
    json!({ "type": "object", "description": description,
        "additionalProperties": { "type": "string", "default": "" } })
}

fn nested_schema(schema: &str, description: &str) -> Value {
    json!({ "allOf": [schema_reference(schema)], "description": description })
}

fn nested_list_schema(schema: &str, description: &str) -> Value {
    json!({ "type": "array", "description": description, "items": schema_reference(schema) })
}

fn object_schema(description: &str, required: &[&str], properties: &Value) -> Value {
    let mut schema = json!({ "type": "object", "description": description, "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn add_kind_to_schema(mut schema: Value, kind: &Value) -> Value {
    schema["properties"]["apiVersion"] = string_schema("Group and version of the object.");
    schema["properties"]["kind"] = string_schema("Kind of the object.");
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    schema
}

fn pool_schema(api: &RemovalApi) -> Value {
    let schema = object_schema(
        &format!(
            "The metadata of a pool. Clients use it to check that the pool exists. Spec and status are in the API group \
             {}.",
            api.stored.pools.group
        ),
        &[],
        &json!({ "metadata": nested_schema(OBJECT_META, "Metadata of the pool.") }),
    );
    add_kind_to_schema(schema, &group_version_kind(api, api.kind))
}

fn removal_schema(api: &RemovalApi) -> Value {
    let preconditions = object_schema(
        "Conditions that must hold. Otherwise the request is refused.",
        &[],
        &json!({ "uid": string_schema("The UID that the pool must have.") }),
    );
    let mut targets = string_list_schema(
        "Names of the machines to remove. All of them must belong to the pool. Repeated names are ignored.",
    );
    targets["minItems"] = json!(1);
    targets["maxItems"] = json!(MAX_TARGETS);
    let schema = object_schema(
        "Removes the named machines from a pool and decrements its replicas by their number. Either all machines are removed or none. The pool does not replace the machines and deletes no other machines in their place. A machine that an earlier removal has accepted is not counted again, so requests can be repeated.",
        &["targets"],
        &json!({
            "metadata": nested_schema(OBJECT_META, "Optional. Name and namespace of the pool must match the path of the request."),
            "targets": targets,
            "targetUIDs": string_list_schema("UIDs that the machines must have, one for each target and in the same order. An empty UID is no condition."),
            "preconditions": preconditions,
            "dryRun": string_list_schema("With All, the request is checked and nothing is changed. There are no other values."),
            "force": boolean_schema("Whether protected machines are removed as well. The user needs the verb force on this subresource."),
        }),
    );
    let mut schema = add_kind_to_schema(schema, &group_version_kind(api, api.removal_kind));
    schema["additionalProperties"] = json!(false);
    schema
}

fn claim_schema(api: &RemovalApi) -> Value {
    let schema = object_schema(
        "Claims a machine of a pool for a time. Until then it is protected. The same user and id find the same claim again, so requests can be repeated.",
        &["id"],
        &json!({
            "metadata": nested_schema(OBJECT_META, "Ignored."),
            "id": string_schema("The id of the claim, which the caller chooses: 1 to 128 letters, digits and the characters -_.:/"),
            "durationSeconds": integer_schema("int64", "How long the machine is claimed, in seconds, at most the maximum of the pool. Required in a request."),
            "reason": string_schema("Why the machine is claimed, for users. At most 256 bytes."),
            "waitSeconds": integer_schema("int64", "How long the request waits for a free machine, in seconds, from 0 to 25. The default is 0."),
            "machine": machine_schema("In a request, the name of the only machine that is accepted. In a response, the claimed machine."),
            "renew": boolean_schema("Whether the request only renews a claim and never claims another machine."),
            "dryRun": string_list_schema("With All, the request is checked and nothing is changed. There are no other values."),
            "expiresAt": nested_schema(TIME, "When the claim ends. Only in a response."),
        }),
    );
    add_kind_to_schema(schema, &group_version_kind(api, api.claim_kind))
}

fn release_schema(api: &RemovalApi) -> Value {
    let mut then = string_schema(
        "What happens to the machine. Keep: it stays and can be claimed again. Remove: it is removed, and replicas is decremented. Replace: it is deleted, and the controller creates another one.",
    );
    then["enum"] = json!(["Keep", "Remove", "Replace"]);
    let schema = object_schema(
        "Releases a claimed machine.",
        &["then"],
        &json!({
            "metadata": nested_schema(OBJECT_META, "Ignored."),
            "id": string_schema("The id of the claim. Required in a request."),
            "machineUID": string_schema("The UID of the machine. Required in a request."),
            "then": then,
            "dryRun": string_list_schema("With All, the request is checked and nothing is changed. There are no other values."),
            "machine": machine_schema("The released machine. Only in a response."),
            "replicas": integer_schema("int64", "The replicas of the pool after the release. Only in a response."),
        }),
    );
    add_kind_to_schema(schema, &group_version_kind(api, api.release_kind))
}

fn machine_schema(description: &str) -> Value {
    json!({ "description": description, "x-kubernetes-preserve-unknown-fields": true })
}

fn boolean_schema(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn status_schema() -> Value {
    let schema = object_schema(
        "The result of a request.",
        &[],
        &json!({
            "code": integer_schema("int32", "HTTP status code."),
            "details": nested_schema(STATUS_DETAILS, "The object of the request."),
            "message": string_schema("The result, for users."),
            "metadata": nested_schema(LIST_META, "Always empty."),
            "reason": string_schema("Why a request failed, for programs."),
            "status": string_schema("Success or Failure."),
        }),
    );
    add_kind_to_schema(schema, &json!({ "group": "", "kind": "Status", "version": "v1" }))
}

fn status_details_schema() -> Value {
    object_schema(
        "The object of a request.",
        &[],
        &json!({
            "causes": nested_list_schema(STATUS_CAUSE, "One entry for each target."),
            "group": string_schema("API group of the object."),
            "kind": string_schema("Plural resource name of the object."),
            "name": string_schema("Name of the object."),
            "retryAfterSeconds": integer_schema("int32", "How long to wait before the next attempt, in seconds."),
            "uid": string_schema("UID of the object."),
        }),
    )
}

fn status_cause_schema() -> Value {
    object_schema(
        "The result for one target.",
        &[],
        &json!({
            "field": string_schema("The field of the request."),
            "message": string_schema("Name of the machine."),
            "reason": string_schema("Removed: the machine is removed, and replicas was decremented for it. AlreadyRemoved: an earlier request removed it. WouldBeRemoved: the request was a dry run."),
        }),
    )
}

fn list_meta_schema() -> Value {
    object_schema(
        "Metadata of a response.",
        &[],
        &json!({
            "continue": string_schema("Not used."),
            "remainingItemCount": integer_schema("int64", "Not used."),
            "resourceVersion": string_schema("Not used."),
            "selfLink": string_schema("Not used."),
        }),
    )
}

fn object_meta_schema() -> Value {
    object_schema(
        "Metadata of a stored object.",
        &[],
        &json!({
            "annotations": string_map_schema("Annotations of the object."),
            "creationTimestamp": nested_schema(TIME, "When the object was created."),
            "deletionGracePeriodSeconds": integer_schema("int64", "Grace period of the deletion, in seconds."),
            "deletionTimestamp": nested_schema(TIME, "When the deletion of the object was requested."),
            "finalizers": string_list_schema("Finalizers that delay the deletion of the object."),
            "generateName": string_schema("Prefix from which the API server generates a name."),
            "generation": integer_schema("int64", "Number of the current version of the desired state."),
            "labels": string_map_schema("Labels of the object."),
            "managedFields": nested_list_schema(MANAGED_FIELDS, "The managers of the fields."),
            "name": string_schema("Name of the object, unique in its namespace among the objects of its kind."),
            "namespace": string_schema("Namespace."),
            "ownerReferences": nested_list_schema(OWNER, "The owners of the object."),
            "resourceVersion": string_schema("Version of the stored object."),
            "selfLink": string_schema("Not used."),
            "uid": string_schema("UID of the object."),
        }),
    )
}

fn owner_reference_schema() -> Value {
    object_schema(
        "An owner of an object.",
        &["apiVersion", "kind", "name", "uid"],
        &json!({
            "apiVersion": string_schema("Group and version of the owner."),
            "blockOwnerDeletion": { "type": "boolean", "description": "Whether a foreground deletion of the owner waits for this object." },
            "controller": { "type": "boolean", "description": "Whether the owner is the controller of this object." },
            "kind": string_schema("Kind of the owner."),
            "name": string_schema("Name of the owner."),
            "uid": string_schema("UID of the owner."),
        }),
    )
}

fn managed_fields_schema() -> Value {
    object_schema(
        "The fields of one manager.",
        &[],
        &json!({
            "apiVersion": string_schema("API version of the fields."),
            "fieldsType": string_schema("Format of the fields."),
            "fieldsV1": { "type": "object", "description": "The fields." },
            "manager": string_schema("The manager."),
            "operation": string_schema("Apply or Update."),
            "subresource": string_schema("Subresource through which the fields were set."),
            "time": nested_schema(TIME, "When the fields were last set."),
        }),
    )
}
