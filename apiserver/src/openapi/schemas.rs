//! The schemas. Those of Kubernetes have only the fields that occur here.

use serde_json::{Value, json};

use super::{gvk, own, reference};
use crate::api::{GroupVersion, POOL_KIND, REMOVAL_KIND};
use crate::body::MOST_TARGETS;

/// The name of the schema of `Status`.
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const STATUS_DETAILS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusDetails";
const STATUS_CAUSE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.StatusCause";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const OWNER: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";
const MANAGED_FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// All schemas that a document refers to.
pub(super) fn all(served: GroupVersion) -> Value {
    let mut schemas = serde_json::Map::new();
    schemas.insert(own(served, POOL_KIND), pool(served));
    schemas.insert(own(served, REMOVAL_KIND), removal(served));
    for (name, schema) in [
        (STATUS, status()),
        (STATUS_DETAILS, status_details()),
        (STATUS_CAUSE, status_cause()),
        (LIST_META, list_meta()),
        (OBJECT_META, object_meta()),
        (OWNER, owner()),
        (MANAGED_FIELDS, managed_fields()),
        (TIME, json!({ "type": "string", "format": "date-time", "description": "A time in RFC 3339." })),
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
    schema["properties"]["apiVersion"] = text("Group and version of this object.");
    schema["properties"]["kind"] = text("Kind of this object.");
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    schema
}

fn pool(served: GroupVersion) -> Value {
    let schema = object(
        "The metadata of a pool, by which clients find out that the pool is there. Spec and status are in the API group in which pools are stored.",
        &[],
        &json!({ "metadata": another(OBJECT_META, "Metadata of the pool.") }),
    );
    of_kind(schema, &gvk(served, POOL_KIND))
}

fn removal(served: GroupVersion) -> Value {
    let preconditions = object(
        "What must be so, or nothing happens.",
        &[],
        &json!({ "uid": text("UID that the pool must have.") }),
    );
    let mut targets = texts(
        "Names of the machines to be removed. All of them must be members of the pool. Naming one twice is naming it once.",
    );
    targets["minItems"] = json!(1);
    targets["maxItems"] = json!(MOST_TARGETS);
    let schema = object(
        "Removes the named machines from a pool and lowers its replicas by their number: all of them, or none. No machine is replaced, and no other one leaves instead. A machine that is leaving already because of an earlier removal is not counted again, so a request can be repeated.",
        &["targets"],
        &json!({
            "metadata": another(OBJECT_META, "Name and namespace of the pool, which are in the path of the request already."),
            "targets": targets,
            "targetUIDs": texts("UIDs that the machines must have, one for each of targets and in the same order. An empty one demands nothing."),
            "preconditions": preconditions,
            "dryRun": texts("With All, everything is checked and nothing is changed. No other value is known."),
        }),
    );
    let mut schema = of_kind(schema, &gvk(served, REMOVAL_KIND));
    schema["additionalProperties"] = json!(false);
    schema
}

fn status() -> Value {
    let schema = object(
        "The outcome of a request.",
        &[],
        &json!({
            "code": number("int32", "HTTP status."),
            "details": another(STATUS_DETAILS, "What the outcome is about."),
            "message": text("The outcome, for people."),
            "metadata": another(LIST_META, "Always empty here."),
            "reason": text("Why a request failed, as a word for programs."),
            "status": text("Success or Failure."),
        }),
    );
    of_kind(schema, &json!({ "group": "", "kind": "Status", "version": "v1" }))
}

fn status_details() -> Value {
    object(
        "What an outcome is about.",
        &[],
        &json!({
            "causes": others(STATUS_CAUSE, "One for each machine that was named."),
            "group": text("API group of the object."),
            "kind": text("Resource of the object, in the plural."),
            "name": text("Name of the object."),
            "retryAfterSeconds": number("int32", "How long to wait before the request is repeated, in seconds."),
            "uid": text("UID of the object."),
        }),
    )
}

fn status_cause() -> Value {
    object(
        "One part of an outcome.",
        &[],
        &json!({
            "field": text("The field of the request that it is about."),
            "message": text("Name of the machine."),
            "reason": text("Removed: it leaves, and replicas went down for it. AlreadyRemoved: an earlier request has removed it. WouldBeRemoved: it was a dry run."),
        }),
    )
}

fn list_meta() -> Value {
    object(
        "Metadata of an answer.",
        &[],
        &json!({
            "continue": text("Unused here."),
            "remainingItemCount": number("int64", "Unused here."),
            "resourceVersion": text("Unused here."),
            "selfLink": text("Unused."),
        }),
    )
}

fn object_meta() -> Value {
    object(
        "What every stored object has.",
        &[],
        &json!({
            "annotations": map("Notes for programs and people."),
            "creationTimestamp": another(TIME, "When the object was created."),
            "deletionGracePeriodSeconds": number("int64", "How long the object may take to go, in seconds."),
            "deletionTimestamp": another(TIME, "When somebody asked for the object's deletion."),
            "finalizers": texts("Who has to agree before the object goes."),
            "generateName": text("What the server completes to a name."),
            "generation": number("int64", "Counts the changes of what is wanted."),
            "labels": map("What the object can be selected by."),
            "managedFields": others(MANAGED_FIELDS, "Who has set which field."),
            "name": text("Name, unique among the objects of one kind in one namespace."),
            "namespace": text("Namespace."),
            "ownerReferences": others(OWNER, "The objects that this one goes with."),
            "resourceVersion": text("Changes with every change of the object."),
            "selfLink": text("Unused."),
            "uid": text("Unique over all objects that there ever were."),
        }),
    )
}

fn owner() -> Value {
    object(
        "An object that another one goes with.",
        &["apiVersion", "kind", "name", "uid"],
        &json!({
            "apiVersion": text("Group and version of the owner."),
            "blockOwnerDeletion": { "type": "boolean", "description": "Whether the owner waits for this object when it goes." },
            "controller": { "type": "boolean", "description": "Whether the owner manages this object." },
            "kind": text("Kind of the owner."),
            "name": text("Name of the owner."),
            "uid": text("UID of the owner."),
        }),
    )
}

fn managed_fields() -> Value {
    object(
        "Fields that one manager has set.",
        &[],
        &json!({
            "apiVersion": text("Version of the API that the fields are of."),
            "fieldsType": text("How the fields are written."),
            "fieldsV1": { "type": "object", "description": "The fields." },
            "manager": text("The manager."),
            "operation": text("Apply or Update."),
            "subresource": text("Through which subresource the fields were set."),
            "time": another(TIME, "When they were set last."),
        }),
    )
}
