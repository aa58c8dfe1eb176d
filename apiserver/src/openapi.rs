//! OpenAPI documents, which `kubectl explain` and clients that validate objects read.

mod names;
mod schemas;

use serde_json::{Value, json};
use vmpool_platforms::removal::{ExpansionApi, RemovalApi};

use crate::api::{CLAIM, EXPAND, RELEASE, REMOVAL};
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
        if let Some(expansion) = &api.expansion {
            let namespace = format!("/apis/{group}/{version}/namespaces/{{namespace}}");
            let ExpansionApi { machines, machine_kind, expand_machine, expand_pool, .. } = *expansion;
            let machine = format!("{namespace}/{machines}/{{name}}/{EXPAND}");
            document["paths"][machine] = expand(api, "get", (machine_kind, "a machine"));
            document["paths"][format!("{pool}/{EXPAND}")] =
                expand(api, "get", (api.kind, "the template of a pool"));
            for (name, kind, what) in [
                (expand_machine, machine_kind, "the machine in the body"),
                (expand_pool, api.kind, "the pool in the body"),
            ] {
                document["paths"][format!("{namespace}/{name}")] = expand(api, "put", (kind, what));
            }
        }
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

/// A request for an object with instance type and preference written out.
fn expand(api: &RemovalApi, method: &str, (kind, what): (&str, &str)) -> Value {
    // The schema of the object is that of the cluster.
    let object = json!({ "application/json": { "schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } } });
    let is_put = method == "put";
    let verb = if is_put { "replace" } else { "read" };
    let mut operation = json!({
        "tags": [tag(api)],
        "description": format!("return {what} with instance type and preference written out; nothing is stored"),
        "operationId": format!("{verb}Namespaced{kind}Expansion"),
        "responses": {
            "200": { "description": "done", "content": object },
            "401": { "description": "Unauthorized" },
        },
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": gvk(api, kind),
    });
    if is_put {
        operation["requestBody"] = json!({ "content": object, "required": true });
    }
    let mut parameters = parameters();
    if is_put && let Some(parameters) = parameters.as_array_mut() {
        parameters.retain(|parameter| parameter["name"] != "name");
    }
    let is_pool = !is_put && kind == api.kind;
    if is_pool && let Some(parameters) = parameters.as_array_mut() {
        let query = |name: &str, description: &str| {
            json!({ "name": name, "in": "query", "description": description,
                "schema": { "type": "string", "uniqueItems": true } })
        };
        parameters.push(query("revision", "The name of a stored revision, whose template is expanded."));
        parameters.push(query("index", "A number from 0: the response is the machine with this ordinal."));
    }
    json!({ method: operation, "parameters": parameters })
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
