//! OpenAPI documents, which `kubectl explain` and clients that validate objects read.

mod names;
mod schemas;

use serde_json::{Value, json};

use crate::api::{GroupVersion, POOL_KIND, POOLS, REMOVAL, REMOVAL_KIND};
use names::{gvk, reference, schema_name};

/// `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn v3(served: GroupVersion, enabled: bool) -> Value {
    let mut document = json!({
        "openapi": "3.0.0",
        "info": { "title": "vmpool", "version": concat!("v", env!("CARGO_PKG_VERSION")) },
        "paths": {},
        "components": { "schemas": {} },
    });
    if enabled {
        let GroupVersion { group, version } = served;
        let pool = format!("/apis/{group}/{version}/namespaces/{{namespace}}/{POOLS}/{{name}}");
        document["paths"][&pool] = read(served);
        document["paths"][format!("{pool}/{REMOVAL}")] = removal(served);
        document["components"]["schemas"] = schemas::all(served);
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

fn read(served: GroupVersion) -> Value {
    json!({
        "get": {
            "tags": [tag(served)],
            "description": "read the metadata of a pool",
            "operationId": "readNamespacedVirtualMachinePool",
            "responses": answers("200", &schema_name(served, POOL_KIND)),
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": gvk(served, POOL_KIND),
        },
        "parameters": parameters(),
    })
}

fn removal(served: GroupVersion) -> Value {
    let query = |name: &str, description: &str| {
        json!({ "name": name, "in": "query", "description": description,
            "schema": { "type": "string", "uniqueItems": true } })
    };
    json!({
        "post": {
            "tags": [tag(served)],
            "description": "remove the named machines from a pool, and decrement its replicas by their number",
            "operationId": "createNamespacedVirtualMachinePoolScaleDownWith",
            "parameters": [
                query("dryRun", "With All, the request is checked and nothing is changed. There are no other values."),
                query("fieldManager", "Has no effect here."),
                query("fieldValidation", "Has no effect here. Unknown fields are always refused."),
            ],
            "requestBody": {
                "content": { "application/json": { "schema": reference(&schema_name(served, REMOVAL_KIND)) } },
                "required": true,
            },
            "responses": answers("201", schemas::STATUS),
            "x-kubernetes-action": "post",
            "x-kubernetes-group-version-kind": gvk(served, REMOVAL_KIND),
        },
        "parameters": parameters(),
    })
}

fn tag(served: GroupVersion) -> String {
    let group: String = served.group.split('.').map(capital).collect();
    format!("{}_{}", group, served.version)
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests;
