//! OpenAPI documents, which `kubectl explain` and clients that validate objects read.

mod names;
mod schemas;

use serde_json::{Value, json};
use vmpool_platforms::removal::RemovalApi;

use crate::api::{CLAIM, RELEASE, REMOVAL};
use names::{gvk, reference, schema_name};

/// `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn v3(api: &RemovalApi, enabled: bool) -> Value {
    let mut document = json!({
        "openapi": "3.0.0",
        "info": { "title": "vmpool", "version": concat!("v", env!("CARGO_PKG_VERSION")) },
        "paths": {},
        "components": { "schemas": {} },
    });
    if enabled {
        let RemovalApi { group, version, plural, .. } = api;
        let pool = format!("/apis/{group}/{version}/namespaces/{{namespace}}/{plural}/{{name}}");
        document["paths"][&pool] = read(api);
        document["paths"][format!("{pool}/{REMOVAL}")] = removal(api);
        let claim = "claim a machine of a pool for a time, or renew a claim";
        document["paths"][format!("{pool}/{CLAIM}")] = write(api, api.claim_kind, claim, "201");
        let release = "release a claimed machine";
        document["paths"][format!("{pool}/{RELEASE}")] = write(api, api.release_kind, release, "200");
        document["components"]["schemas"] = schemas::all(api);
    }
    document
}

/// `/openapi/v2`, without paths and schemas. The clients of this API support version 3. kube-apiserver merges this
/// document into its own, where schemas with equal names would conflict.
pub(crate) fn v2() -> Value {
    json!({
        "swagger": "2.0",
        "info": { "title": "vmpool", "version": concat!("v", env!("CARGO_PKG_VERSION")) },
        "paths": {},
    })
}

fn parameters() -> Value {
    let in_path = |name: &str, description: &str| {
        json!({ "name": name, "in": "path", "description": description, "required": true,
            "schema": { "type": "string", "uniqueItems": true } })
    };
    json!([
        in_path("name", "name of the pool"),
        in_path("namespace", "namespace of the pool"),
        { "name": "pretty", "in": "query", "description": "Has no effect here.",
            "schema": { "type": "string", "uniqueItems": true } },
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
            "tags": [tag(api)],
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
    let query = |name: &str, description: &str| {
        json!({ "name": name, "in": "query", "description": description,
            "schema": { "type": "string", "uniqueItems": true } })
    };
    json!({
        "post": {
            "tags": [tag(api)],
            "description": "remove the named machines from a pool, and decrement its replicas by their number",
            "operationId": format!("createNamespaced{}", api.removal_kind),
            "parameters": [
                query("dryRun", "With All, the request is checked and nothing is changed. There are no other values."),
                query("fieldManager", "Has no effect here."),
                query("fieldValidation", "Has no effect here. Unknown fields are always refused."),
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
            "tags": [tag(api)],
            "description": description,
            "operationId": format!("createNamespaced{kind}"),
            "parameters": [{ "name": "dryRun", "in": "query",
                "description": "With All, the request is checked and nothing is changed. There are no other values.",
                "schema": { "type": "string", "uniqueItems": true } }],
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

fn tag(api: &RemovalApi) -> String {
    let group: String = api.group.split('.').map(capital).collect();
    format!("{}_{}", group, api.version)
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests;
