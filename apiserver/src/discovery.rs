//! Discovery documents in the unaggregated and the aggregated format.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use serde_json::{Value, json};

use vmpool_platforms::removal::RemovalApi;

use crate::api::{Apis, CLAIM, RELEASE, REMOVAL};

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
    let resources = vec![
        APIResource {
            singular_name: api.singular.to_owned(),
            ..resource(api.plural.to_owned(), api.kind, "get")
        },
        resource(format!("{}/{CLAIM}", api.plural), api.claim_kind, "create"),
        resource(format!("{}/{RELEASE}", api.plural), api.release_kind, "create"),
        resource(format!("{}/{REMOVAL}", api.plural), api.removal_kind, "create"),
    ];
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
    let resources = json!([{
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
    json!({
        "metadata": { "name": group },
        "versions": [{
            "version": version,
            "freshness": "Current",
            "resources": if enabled { resources } else { json!([]) },
        }],
    })
}
