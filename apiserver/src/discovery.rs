//! Discovery documents in the unaggregated and the aggregated format.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use serde_json::{Value, json};

use crate::api::{GROUPS, GroupVersion, POOL, POOL_KIND, POOLS, REMOVAL, REMOVAL_KIND};

/// `/apis/GROUP/VERSION`.
pub(crate) fn resources(served: GroupVersion, enabled: bool) -> APIResourceList {
    let resource = |name: String, kind: &str, verb: &str| APIResource {
        name,
        singular_name: String::new(),
        namespaced: true,
        kind: kind.to_owned(),
        verbs: vec![verb.to_owned()],
        ..APIResource::default()
    };
    let resources = vec![
        APIResource { singular_name: POOL.to_owned(), ..resource(POOLS.to_owned(), POOL_KIND, "get") },
        resource(format!("{POOLS}/{REMOVAL}"), REMOVAL_KIND, "create"),
    ];
    APIResourceList {
        group_version: served.api_version(),
        resources: if enabled { resources } else { Vec::new() },
    }
}

/// `/apis` in the aggregated format. `version` is that of the format.
pub(crate) fn aggregated(version: &str, enabled: bool) -> Value {
    let items: Vec<Value> = GROUPS.into_iter().map(|served| group(served, enabled)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

fn group(served: GroupVersion, enabled: bool) -> Value {
    let GroupVersion { group, version } = served;
    let kind = |kind| json!({ "group": group, "version": version, "kind": kind });
    let resources = json!([{
        "resource": POOLS,
        "responseKind": kind(POOL_KIND),
        "scope": "Namespaced",
        "singularResource": POOL,
        "verbs": ["get"],
        "subresources": [{
            "subresource": REMOVAL,
            "responseKind": kind(REMOVAL_KIND),
            "verbs": ["create"],
        }],
    }]);
    json!({
        "metadata": { "name": group },
        "versions": [{
            "version": version,
            "freshness": "Current",
            "resources": if enabled { resources } else { json!([]) },
        }],
    })
}
