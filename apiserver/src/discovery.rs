//! Discovery documents in the unaggregated and the aggregated format.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use serde_json::{Value, json};

use vmpool_platforms::removal::{ExpansionApi, RemovalApi, StoredResource};

use crate::api::{Apis, CLAIM, EXPAND, RELEASE, REMOVAL};

/// `/apis/GROUP/VERSION`.
pub(crate) fn resources(api: &RemovalApi, enabled: bool) -> APIResourceList {
    let resource = |name: String, kind: &str, verb: &str| APIResource {
        name,
        singular_name: String::new(),
        namespaced: true,
        kind: kind.to_owned(),
        verbs: vec![verb.to_owned()],
        ..APIResource::default()
    };
    let mut resources = vec![
        APIResource {
            singular_name: api.singular.to_owned(),
            ..resource(api.plural.to_owned(), api.kind, "get")
        },
        resource(format!("{}/{CLAIM}", api.plural), api.claim_kind, "create"),
        resource(format!("{}/{RELEASE}", api.plural), api.release_kind, "create"),
        resource(format!("{}/{REMOVAL}", api.plural), api.removal_kind, "create"),
    ];
    if let Some(expansion) = &api.expansion {
        let ExpansionApi { machines, machine_kind, expand_machine, expand_pool, .. } = *expansion;
        let of = |stored: &StoredResource, resource: APIResource| APIResource {
            group: Some(stored.group.to_owned()),
            version: Some(stored.version.to_owned()),
            ..resource
        };
        let (pool, machine) = (&api.stored.pools, &api.stored.machines);
        resources.extend([
            of(pool, resource(format!("{}/{EXPAND}", api.plural), api.kind, "get")),
            of(machine, resource(format!("{machines}/{EXPAND}"), machine_kind, "get")),
            of(machine, resource(expand_machine.to_owned(), machine_kind, "update")),
            of(pool, resource(expand_pool.to_owned(), api.kind, "update")),
        ]);
    }
    APIResourceList {
        group_version: api.api_version(),
        resources: if enabled { resources } else { Vec::new() },
    }
}

/// `/apis` in the aggregated format. `version` is that of the format.
pub(crate) fn aggregated(apis: Apis, version: &str, enabled: bool) -> Value {
    let items: Vec<Value> = apis.iter().map(|api| group(api, enabled)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

fn group(api: &RemovalApi, enabled: bool) -> Value {
    let RemovalApi { group, version, .. } = api;
    let kind = |kind| json!({ "group": group, "version": version, "kind": kind });
    let mut resources = json!([{
        "resource": api.plural,
        "responseKind": kind(api.kind),
        "scope": "Namespaced",
        "singularResource": api.singular,
        "verbs": ["get"],
        "subresources": [
            { "subresource": CLAIM, "responseKind": kind(api.claim_kind), "verbs": ["create"] },
            { "subresource": RELEASE, "responseKind": kind(api.release_kind), "verbs": ["create"] },
            { "subresource": REMOVAL, "responseKind": kind(api.removal_kind), "verbs": ["create"] },
        ],
    }]);
    if let Some(expansion) = &api.expansion {
        let ExpansionApi { machines, machine_kind, expand_machine, expand_pool, .. } = *expansion;
        let of = |stored: &StoredResource, kind: &str| json!({ "group": stored.group, "version": stored.version, "kind": kind });
        let expand = |stored, kind| json!({ "subresource": EXPAND, "responseKind": of(stored, kind), "verbs": ["get"] });
        let whole = |name: &str, stored, kind, verbs: Value, subresources: Value| {
            json!({
                "resource": name, "responseKind": of(stored, kind), "scope": "Namespaced", "singularResource": "",
                "verbs": verbs, "subresources": subresources,
            })
        };
        let (pool, machine) = (&api.stored.pools, &api.stored.machines);
        if let Some(subresources) = resources[0]["subresources"].as_array_mut() {
            subresources.push(expand(pool, api.kind));
        }
        if let Some(resources) = resources.as_array_mut() {
            let of_machine = json!([expand(machine, machine_kind)]);
            resources.push(whole(machines, machine, machine_kind, json!([]), of_machine));
            resources.push(whole(expand_machine, machine, machine_kind, json!(["update"]), json!([])));
            resources.push(whole(expand_pool, pool, api.kind, json!(["update"]), json!([])));
        }
    }
    json!({
        "metadata": { "name": group },
        "versions": [{
            "version": version,
            "freshness": "Current",
            "resources": if enabled { resources } else { json!([]) },
        }],
    })
}
