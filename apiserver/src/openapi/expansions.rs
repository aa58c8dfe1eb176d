//! The paths of expansion.

use serde_json::{Value, json};
use vmpool_platforms::removal::{ExpansionApi, StoredResource};

use super::names::{namespace_path_prefix, operation_tag, path_parameter, query_parameter};
use crate::api::EXPAND;
use crate::expansion::ExpansionTarget;

/// All paths of an API, each with its operation and the parameters.
pub(super) fn expansion_paths(api: &'static ExpansionApi) -> Vec<(String, Value)> {
    let namespace = namespace_path_prefix(api.group_version());
    let mut paths = vec![
        (
            format!("{namespace}/{}/{{name}}/{EXPAND}", api.machines),
            expansion_path_item(api, ExpansionTarget::StoredMachine),
        ),
        (format!("{namespace}/{}", api.expand_machine), expansion_path_item(api, ExpansionTarget::Machine)),
    ];
    if let Some(pools) = api.pools {
        paths.extend([
            (
                format!("{namespace}/{}/{{name}}/{EXPAND}", pools.plural),
                expansion_path_item(api, ExpansionTarget::StoredPool),
            ),
            (format!("{namespace}/{}", pools.expand_pool), expansion_path_item(api, ExpansionTarget::Pool)),
        ]);
    }
    paths
}

/// A request for an object with instance type and preference written out.
fn expansion_path_item(api: &ExpansionApi, target: ExpansionTarget) -> Value {
    let is_put = target.is_supplied();
    let (method, verb) = if is_put { ("put", "replace") } else { ("get", "read") };
    let pool_kind = api.pools.map(|pools| pools.kind).unwrap_or_default();
    let (kind, stored, what) = match target {
        ExpansionTarget::StoredMachine => (api.machine_kind, &api.stored.machines, "a machine"),
        ExpansionTarget::Machine => (api.machine_kind, &api.stored.machines, "the machine in the body"),
        ExpansionTarget::StoredPool => (pool_kind, &api.stored.pools, "the template of a pool"),
        ExpansionTarget::Pool => (pool_kind, &api.stored.pools, "the pool in the body"),
    };
    let StoredResource { group, version, .. } = stored;
    // The schema of the object is that of the cluster.
    let object = json!({ "application/json": { "schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } } });
    let mut operation = json!({
        "tags": [operation_tag(api.group_version())],
        "description": format!("return {what} with instance type and preference written out; nothing is stored"),
        "operationId": format!("{verb}{}Namespaced{kind}Expansion", operation_tag(api.group_version())),
        "responses": {
            "200": { "description": "done", "content": object },
            "401": { "description": "Unauthorized" },
        },
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": { "group": group, "kind": kind, "version": version },
    });
    let mut parameters = vec![
        path_parameter("namespace", "namespace of the object"),
        query_parameter("pretty", "Has no effect here."),
    ];
    if is_put {
        operation["requestBody"] = json!({ "content": object, "required": true });
    } else {
        parameters.insert(0, path_parameter("name", "name of the object"));
    }
    if target == ExpansionTarget::StoredPool {
        parameters.extend([
            query_parameter("revision", "The name of a stored revision, whose template is expanded."),
            query_parameter("index", "A number from 0: the response is the machine with this ordinal."),
        ]);
    } else {
        parameters.push(query_parameter(
            "complete",
            "With true, the response contains all that the machine gets when it starts, and the requirements of the \
             preference are checked. Otherwise it is that of KubeVirt.",
        ));
    }
    json!({ method: operation, "parameters": parameters })
}

/// The same in version 2.
pub(super) fn to_openapi_v2(mut path: Value) -> Value {
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
