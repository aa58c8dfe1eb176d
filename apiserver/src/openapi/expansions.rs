//! The paths of expansion.

use serde_json::{Value, json};
use vmpool_platforms::removal::{ExpansionApi, StoredResource};

use super::names::{in_path, in_query, namespace, tag};
use crate::api::EXPAND;
use crate::expansion::Target;

/// All paths of an API, each with its operation and the parameters.
pub(super) fn paths(api: &'static ExpansionApi) -> Vec<(String, Value)> {
    let namespace = namespace(api.group_version());
    let mut paths = vec![
        (format!("{namespace}/{}/{{name}}/{EXPAND}", api.machines), expand(api, Target::StoredMachine)),
        (format!("{namespace}/{}", api.expand_machine), expand(api, Target::Machine)),
    ];
    if let Some(pools) = api.pools {
        paths.extend([
            (format!("{namespace}/{}/{{name}}/{EXPAND}", pools.plural), expand(api, Target::StoredPool)),
            (format!("{namespace}/{}", pools.expand_pool), expand(api, Target::Pool)),
        ]);
    }
    paths
}

/// A request for an object with instance type and preference written out.
fn expand(api: &ExpansionApi, target: Target) -> Value {
    let is_put = target.is_supplied();
    let (method, verb) = if is_put { ("put", "replace") } else { ("get", "read") };
    let pool_kind = api.pools.map(|pools| pools.kind).unwrap_or_default();
    let (kind, stored, what) = match target {
        Target::StoredMachine => (api.machine_kind, &api.stored.machines, "a machine"),
        Target::Machine => (api.machine_kind, &api.stored.machines, "the machine in the body"),
        Target::StoredPool => (pool_kind, &api.stored.pools, "the template of a pool"),
        Target::Pool => (pool_kind, &api.stored.pools, "the pool in the body"),
    };
    let StoredResource { group, version, .. } = stored;
    // The schema of the object is that of the cluster.
    let object = json!({ "application/json": { "schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } } });
    let mut operation = json!({
        "tags": [tag(api.group_version())],
        "description": format!("return {what} with instance type and preference written out; nothing is stored"),
        "operationId": format!("{verb}{}Namespaced{kind}Expansion", tag(api.group_version())),
        "responses": {
            "200": { "description": "done", "content": object },
            "401": { "description": "Unauthorized" },
        },
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": { "group": group, "kind": kind, "version": version },
    });
    let mut parameters =
        vec![in_path("namespace", "namespace of the object"), in_query("pretty", "Has no effect here.")];
    if is_put {
        operation["requestBody"] = json!({ "content": object, "required": true });
    } else {
        parameters.insert(0, in_path("name", "name of the object"));
    }
    if target == Target::StoredPool {
        parameters.extend([
            in_query("revision", "The name of a stored revision, whose template is expanded."),
            in_query("index", "A number from 0: the response is the machine with this ordinal."),
        ]);
    }
    json!({ method: operation, "parameters": parameters })
}

/// The same in version 2.
pub(super) fn as_v2(mut path: Value) -> Value {
    for parameter in path["parameters"].as_array_mut().into_iter().flatten() {
        if let Some(parameter) = parameter.as_object_mut()
            && let Some(Value::Object(schema)) = parameter.remove("schema")
        {
            parameter.extend(schema);
        }
    }
    for method in ["get", "put"] {
        let Some(operation) = path.get_mut(method).and_then(Value::as_object_mut) else { continue };
        operation.insert("produces".to_owned(), json!(["application/json"]));
        operation.insert("schemes".to_owned(), json!(["https"]));
        if operation.remove("requestBody").is_some() {
            operation.insert("consumes".to_owned(), json!(["application/json"]));
            operation.insert(
                "parameters".to_owned(),
                json!([{ "name": "body", "in": "body", "required": true, "schema": { "type": "object" } }]),
            );
        }
        operation["responses"]["200"] = json!({ "description": "done", "schema": { "type": "object" } });
    }
    path
}
