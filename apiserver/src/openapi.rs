//! OpenAPI documents, which `kubectl explain` and clients that validate objects read.

mod expansions;
mod names;
mod schemas;

use serde_json::{Value, json};
use vmpool_platforms::removal::{Apis, GroupVersion, RemovalApi};

use crate::api::{CLAIM, RELEASE, REMOVAL};
use names::{
    group_version_kind, namespace_path_prefix, operation_tag, path_parameter, query_parameter, schema_name,
    schema_reference,
};

/// `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn openapi_v3_document(apis: Apis, served: GroupVersion) -> Value {
    let mut document = json!({
        "openapi": "3.0.0",
        "info": { "title": "vmpool", "version": concat!("v", env!("CARGO_PKG_VERSION")) },
        "paths": {},
        "components": { "schemas": {} },
    });
    for api in apis.removal.iter().filter(|api| api.group_version() == served) {
        let pool = format!("{}/{}/{{name}}", namespace_path_prefix(served), api.plural);
        document["paths"][&pool] = pool_path_item(api);
        document["paths"][format!("{pool}/{REMOVAL}")] = removal_path_item(api);
        let claim = "claim a machine of a pool for a time, or renew a claim";
        document["paths"][format!("{pool}/{CLAIM}")] = claim_path_item(api, api.claim_kind, claim, "201");
        let release = "release a claimed machine";
        document["paths"][format!("{pool}/{RELEASE}")] =
            claim_path_item(api, api.release_kind, release, "200");
        document["components"]["schemas"] = schemas::document_schemas(api);
    }
    for api in apis.expansions().filter(|api| api.group_version() == served) {
        for (path, operation) in expansions::expansion_paths(api) {
            document["paths"][path] = operation;
        }
    }
    document
}

/// `/openapi/v2`, without schemas, and only with the paths whose objects have none here. The other clients of
/// this API support version 3. kube-apiserver merges this document into its own, where schemas with equal
/// names would conflict.
pub(crate) fn openapi_v2_document(apis: Apis) -> Value {
    let mut document = json!({
        "swagger": "2.0",
        "info": { "title": "vmpool", "version": concat!("v", env!("CARGO_PKG_VERSION")) },
        "paths": {},
    });
    for (path, operation) in apis.expansions().flat_map(expansions::expansion_paths) {
        document["paths"][path] = expansions::to_openapi_v2(operation);
    }
    document
}

fn pool_path_parameters() -> Value {
    json!([
        path_parameter("name", "name of the pool"),
        path_parameter("namespace", "namespace of the pool"),
        query_parameter("pretty", "Has no effect here."),
    ])
}

fn operation_responses(success: &str, schema: &str) -> Value {
    json!({
        success: { "description": "done", "content": { "application/json": { "schema": schema_reference(schema) } } },
        "401": { "description": "Unauthorized" },
    })
}

fn pool_path_item(api: &RemovalApi) -> Value {
    json!({
        "get": {
            "tags": [operation_tag(api.group_version())],
            "description": "read the metadata of a pool",
            "operationId": format!("readNamespaced{}", api.kind),
            "responses": operation_responses("200", &schema_name(api, api.kind)),
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": group_version_kind(api, api.kind),
        },
        "parameters": pool_path_parameters(),
    })
}

fn removal_path_item(api: &RemovalApi) -> Value {
    json!({
        "post": {
            "tags": [operation_tag(api.group_version())],
            "description": "remove the named machines from a pool, and decrement its replicas by their number",
            "operationId": format!("createNamespaced{}", api.removal_kind),
            "parameters": [
                query_parameter("dryRun", "With All, the request is checked and nothing is changed. There are no other values."),
                query_parameter("fieldManager", "Has no effect here."),
                query_parameter("fieldValidation", "Has no effect here. Unknown fields are always refused."),
            ],
            "requestBody": {
                "content": { "application/json": { "schema": schema_reference(&schema_name(api, api.removal_kind)) } },
                "required": true,
            },
            "responses": operation_responses("201", schemas::STATUS),
            "x-kubernetes-action": "post",
            "x-kubernetes-group-version-kind": group_version_kind(api, api.removal_kind),
        },
        "parameters": pool_path_parameters(),
    })
}

/// A request whose response has the kind of its body.
fn claim_path_item(api: &RemovalApi, kind: &str, description: &str, success: &str) -> Value {
    json!({
        "post": {
            "tags": [operation_tag(api.group_version())],
            "description": description,
            "operationId": format!("createNamespaced{kind}"),
            "parameters": [
                query_parameter("dryRun", "With All, the request is checked and nothing is changed. There are no other values."),
            ],
            "requestBody": {
                "content": { "application/json": { "schema": schema_reference(&schema_name(api, kind)) } },
                "required": true,
            },
            "responses": operation_responses(success, &schema_name(api, kind)),
            "x-kubernetes-action": "post",
            "x-kubernetes-group-version-kind": group_version_kind(api, kind),
        },
        "parameters": pool_path_parameters(),
    })
}

#[cfg(test)]
mod tests;
