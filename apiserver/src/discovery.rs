//! Discovery documents in the unaggregated and the aggregated format. Both list the same resources.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use serde_json::{Value, json};

use vmpool_platforms::removal::{Apis, ExpansionApi, GroupVersion, RemovalApi, StoredResource};

use crate::api::{CLAIM, EXPAND, RELEASE, REMOVAL};

/// A resource or a subresource.
struct ListedResource {
    resource: &'static str,
    /// Empty for the resource itself.
    subresource: &'static str,
    /// Empty for a subresource.
    singular: &'static str,
    kind: &'static str,
    /// Where the kind is defined.
    of: GroupVersion,
    verb: &'static str,
}

/// What these APIs serve in a version of a group.
fn listed_resources(apis: Apis, served: GroupVersion) -> Vec<ListedResource> {
    let removal = apis.removal.iter().filter(|api| api.group_version() == served).flat_map(removal_resources);
    let expansion =
        apis.expansions().filter(|api| api.group_version() == served).flat_map(expansion_resources);
    removal.chain(expansion).collect()
}

fn removal_resources(api: &'static RemovalApi) -> [ListedResource; 4] {
    let of_pool = |subresource, kind, verb| ListedResource {
        resource: api.plural,
        subresource,
        singular: "",
        kind,
        of: api.group_version(),
        verb,
    };
    [
        ListedResource { singular: api.singular, ..of_pool("", api.kind, "get") },
        of_pool(CLAIM, api.claim_kind, "create"),
        of_pool(RELEASE, api.release_kind, "create"),
        of_pool(REMOVAL, api.removal_kind, "create"),
    ]
}

fn expansion_resources(api: &'static ExpansionApi) -> Vec<ListedResource> {
    let of = |stored: &StoredResource, kind, (resource, subresource), verb| {
        let of = GroupVersion { group: stored.group, version: stored.version };
        ListedResource { resource, subresource, singular: "", kind, of, verb }
    };
    let machine = |path, verb| of(&api.stored.machines, api.machine_kind, path, verb);
    let mut listed =
        vec![machine((api.machines, EXPAND), "get"), machine((api.expand_machine, ""), "update")];
    if let Some(pools) = api.pools {
        let pool = |path, verb| of(&api.stored.pools, pools.kind, path, verb);
        listed.insert(0, pool((pools.plural, EXPAND), "get"));
        listed.push(pool((pools.expand_pool, ""), "update"));
    }
    listed
}

/// `/apis/GROUP/VERSION`.
pub(crate) fn api_resource_list(apis: Apis, served: GroupVersion) -> APIResourceList {
    let resource = |listed: ListedResource| {
        let ListedResource { resource, subresource, singular, kind, of, verb } = listed;
        let is_foreign = of != served;
        APIResource {
            name: if subresource.is_empty() {
                resource.to_owned()
            } else {
                format!("{resource}/{subresource}")
            },
            singular_name: singular.to_owned(),
            namespaced: true,
            group: is_foreign.then(|| of.group.to_owned()),
            version: is_foreign.then(|| of.version.to_owned()),
            kind: kind.to_owned(),
            verbs: vec![verb.to_owned()],
            ..APIResource::default()
        }
    };
    APIResourceList {
        group_version: served.to_string(),
        resources: listed_resources(apis, served).into_iter().map(resource).collect(),
    }
}

/// `/apis` in the aggregated format: the groups of `all`, with the resources of `now`. `version` is that of
/// the format.
pub(crate) fn aggregated_group_list(all: Apis, now: Apis, version: &str) -> Value {
    let groups = groups_with_versions(all).into_iter().map(|(group, versions)| {
        let version = |served: &GroupVersion| {
            json!({
                "version": served.version,
                "freshness": "Current",
                "resources": aggregated_resources(now, *served),
            })
        };
        let versions: Vec<Value> = versions.iter().map(version).collect();
        json!({ "metadata": { "name": group }, "versions": versions })
    });
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": groups.collect::<Vec<_>>(),
    })
}

/// The groups, each with its versions, the preferred one first.
pub(crate) fn groups_with_versions(all: Apis) -> Vec<(&'static str, Vec<GroupVersion>)> {
    let mut groups: Vec<(&str, Vec<GroupVersion>)> = Vec::new();
    for served in all.group_versions() {
        match groups.iter_mut().find(|(group, _)| *group == served.group) {
            Some((_, versions)) => versions.push(served),
            None => groups.push((served.group, vec![served])),
        }
    }
    groups
}

fn aggregated_resources(apis: Apis, served: GroupVersion) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for ListedResource { resource, subresource, singular, kind, of, verb } in listed_resources(apis, served) {
        let kind = json!({ "group": of.group, "version": of.version, "kind": kind });
        let place = resources.iter().position(|known| known["resource"] == resource).unwrap_or_else(|| {
            // A resource that has only subresources has no kind, so that clients list the subresources alone.
            resources.push(json!({
                "resource": resource, "responseKind": {}, "scope": "Namespaced", "singularResource": "",
                "verbs": [], "subresources": [],
            }));
            resources.len() - 1
        });
        let known = &mut resources[place];
        if subresource.is_empty() {
            known["responseKind"] = kind;
            known["singularResource"] = singular.into();
            known["verbs"] = json!([verb]);
        } else if let Some(subresources) = known["subresources"].as_array_mut() {
            subresources.push(json!({ "subresource": subresource, "responseKind": kind, "verbs": [verb] }));
        }
    }
    resources
}
