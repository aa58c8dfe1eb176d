//! OpenAPI documents, which `kubectl explain` and clients that validate objects read.

mod expansions;
mod names;
mod schemas;

use serde_json::{Value, json};
use vmpool_platforms::removal::{Apis, GroupVersion, RemovalApi};

use crate::api::{CLAIM, RELEASE, REMOVAL};
use names::{gvk, in_path, in_query, namespace, reference, schema_name, tag};

/// `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn v3(apis: Apis, served: GroupVersion) -> Value {
    let mut document = json!({
        "openapi": "3.0.0",
        "info": { "title": "vmpool", "version": concat!("v", env!("CARGO_PKG_VERSION")) },
        "paths": {},
        "components": { "schemas": {} },
    });
    for api in apis.removal.iter().filter(|api| api.group_version() == served) {
        let pool = format!("{}/{}/{{name}}", namespace(served), api.plural);
        document["paths"][&pool] = read(api);
        document["paths"][format!("{pool}/{REMOVAL}")] = removal(api);
        let claim = "claim a machine of a pool for a time, or renew a claim";
        document["paths"][format!("{pool}/{CLAIM}")] = write(api, api.claim_kind, claim, "201");
        let release = "release a claimed machine";
        document["paths"][format!("{pool}/{RELEASE}")] = write(api, api.release_kind, release, "200");
        document["components"]["schemas"] = schemas::all(api);
    }
    for api in apis.expansions().filter(|api| api.group_version() == served) {
        for (path, operation) in expansions::paths(api) {
            document["paths"][path] = operation;
        }
    }
    document
}

/// `/openapi/v2`, without schemas, and only with the paths whose objects have none here. The other clients of this API support
/// version 3. kube-apiserver merges this document into its own, where schemas with equal names would conflict.
pub(crate) fn v2(apis: Apis) -> Value {
    let mut document = json!({
        "swagger": "2.0",
        "info": { "title": "vmpool", "version": concat!("v", env!("CARGO_PKG_VERSION")) },
        "paths": {},
    });
    for (path, operation) in apis.expansions().flat_map(expansions::paths) {
        document["paths"][path] = expansions::as_v2(operation);
    }
    document
}

fn parameters() -> Value {
    json!([
        in_path("name", "name of the pool"),
        in_path("namespace", "namespace of the pool"),
        in_query("pretty", "Has no effect here."),
    ])
}

fn answers(success: &str, schema: &str) -> Value {
    json!({
        success: { "description": "done", "content": { "application/json": { "schema": reference(schema) } } },
        "401": { "description": "Unauthorized" },
    })
}

fn read(api: &RemovalApi) -> Value {
    json!({
        "get": {
            "tags": [tag(api.group_version())],
            "description": "read the metadata of a pool",
            "operationId": format!("readNamespaced{}", api.kind),
            "responses": answers("200", &schema_name(api, api.kind)),
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": gvk(api, api.kind),
        },
        "parameters": parameters(),
    })
}

fn removal(api: &RemovalApi) -> Value {
    json!({
        "post": {
            "tags": [tag(api.group_version())],
            "description": "remove the named machines from a pool, and decrement its replicas by their number",
            "operationId": format!("createNamespaced{}", api.removal_kind),
            "parameters": [
                in_query("dryRun", "With All, the request is checked and nothing is changed. There are no other values."),
                in_query("fieldManager", "Has no effect here."),
                in_query("fieldValidation", "Has no effect here. Unknown fields are always refused."),
            ],
            "requestBody": {
                "content": { "application/json": { "schema": reference(&schema_name(api, api.removal_kind)) } },
                "required": true,
            },
            "responses": answers("201", schemas::STATUS),
            "x-kubernetes-action": "post",
            "x-kubernetes-group-version-kind": gvk(api, api.removal_kind),
        },
        "parameters": parameters(),
    })
}

/// A request whose response has the kind of its body.
fn write(api: &RemovalApi, kind: &str, description: &str, success: &str) -> Value {
    json!({
        "post": {
            "tags": [tag(api.group_version())],
            "description": description,
            "operationId": format!("createNamespaced{kind}"),
            "parameters": [
                in_query("dryRun", "With All, the request is checked and nothing is changed. There are no other values."),
            ],
            "requestBody": {
                "content": { "application/json": { "schema": reference(&schema_name(api, kind)) } },
                "required": true,
            },
            "responses": answers(success, &schema_name(api, kind)),
            "x-kubernetes-action": "post",
            "x-kubernetes-group-version-kind": gvk(api, kind),
        },
        "parameters": parameters(),
    })
}

#[cfg(test)]
mod tests;
