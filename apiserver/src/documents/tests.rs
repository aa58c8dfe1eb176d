use http::HeaderValue;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::discovery::v2::APIGroupDiscoveryList;
use serde::de::DeserializeOwned;

use vmpool_platforms::removal::{APIS, STANDALONE_APIS};

use super::*;

fn documents(enabled: bool) -> Documents {
    Documents::new(APIS, if enabled { APIS } else { Apis::NONE })
}

const DVP: &str = "/apis/subresources.virtualization.deckhouse.io/v1alpha2";
const OWN: &str = "/apis/subresources.vmpool.dev/v1alpha1";

fn parsed<T: DeserializeOwned>(path: &str) -> T {
    serde_json::from_slice(documents(true).text(path).unwrap()).unwrap()
}

fn get(path: &str, headers: &[(header::HeaderName, &str)]) -> Result<Response<Body>, Error> {
    let headers =
        headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect();
    documents(true).respond(&Method::GET, path, &headers)
}

fn aggregated(enabled: bool) -> Vec<u8> {
    documents(enabled).content().aggregated[0].1.text.clone()
}

#[test]
fn unaggregated_discovery() {
    let groups: APIGroupList = parsed("/apis");
    let names: Vec<&str> = groups.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "subresources.virtualization.deckhouse.io",
            "subresources.vmpool.dev",
            "kubevirt.subresources.vmpool.dev"
        ]
    );
    let group: APIGroup = parsed("/apis/subresources.vmpool.dev");
    assert_eq!(group.preferred_version.unwrap().group_version, "subresources.vmpool.dev/v1alpha1");
    for path in [DVP, OWN] {
        let list: APIResourceList = parsed(path);
        let resources: Vec<(&str, &str, Vec<&str>)> = list
            .resources
            .iter()
            .map(|resource| {
                let verbs = resource.verbs.iter().map(String::as_str).collect();
                (resource.name.as_str(), resource.kind.as_str(), verbs)
            })
            .collect();
        assert_eq!(
            resources,
            [
                ("virtualmachinepools", "VirtualMachinePool", vec!["get"]),
                ("virtualmachinepools/claim", "VirtualMachinePoolClaim", vec!["create"]),
                ("virtualmachinepools/release", "VirtualMachinePoolRelease", vec!["create"]),
                ("virtualmachinepools/scaledownwith", "VirtualMachinePoolScaleDownWith", vec!["create"]),
            ]
        );
        assert!(list.resources.iter().all(|resource| resource.namespaced));
        assert_eq!(list.resources[0].singular_name, "virtualmachinepool");
    }
    insta::assert_json_snapshot!("apis", parsed::<Value>("/apis"));
    insta::assert_json_snapshot!("resources", parsed::<Value>(OWN));
}

#[test]
fn aggregated_discovery() {
    let list: APIGroupDiscoveryList = serde_json::from_slice(&aggregated(true)).unwrap();
    assert_eq!(list.items.len(), 3);
    let version = &list.items[1].versions[0];
    assert_eq!(version.version.as_deref(), Some("v1alpha1"));
    assert_eq!(version.resources[0].resource.as_deref(), Some("virtualmachinepools"));
    let subresources = &version.resources[0].subresources;
    let names: Vec<_> = subresources.iter().map(|known| known.subresource.as_deref().unwrap()).collect();
    assert_eq!(names, ["claim", "release", "scaledownwith"]);
    assert!(subresources.iter().all(|known| known.verbs == ["create"]));
    insta::assert_json_snapshot!("aggregated", serde_json::from_slice::<Value>(&aggregated(true)).unwrap());
}

/// The names of the resources in an unaggregated document.
fn names(documents: &Documents, path: &str) -> Vec<String> {
    let list: APIResourceList = serde_json::from_slice(documents.text(path).unwrap()).unwrap();
    list.resources.into_iter().map(|resource| resource.name).collect()
}

const REFERENCE: [&str; 2] = ["/apis/subresources.kubevirt.io/v1", "/apis/subresources.kubevirt.io/v1alpha3"];

#[test]
fn without_kubevirt_both_versions_of_its_group_are_listed() {
    let documents = Documents::new(STANDALONE_APIS, STANDALONE_APIS);
    for path in REFERENCE {
        assert_eq!(names(&documents, path), ["virtualmachines/expand-spec", "expand-vm-spec"], "{path}");
    }
    let group: APIGroup =
        serde_json::from_slice(documents.text("/apis/subresources.kubevirt.io").unwrap()).unwrap();
    let versions: Vec<&str> = group.versions.iter().map(|version| version.version.as_str()).collect();
    assert_eq!(versions, ["v1", "v1alpha3"]);
    assert_eq!(group.preferred_version.unwrap().version, "v1");
    let text = &documents.content().aggregated[0].1.text;
    let list: APIGroupDiscoveryList = serde_json::from_slice(text).unwrap();
    let group = list.items.last().unwrap();
    let versions: Vec<_> = group.versions.iter().map(|version| version.version.as_deref().unwrap()).collect();
    assert_eq!(versions, ["v1", "v1alpha3"]);
    insta::assert_json_snapshot!("reference", serde_json::from_slice::<Value>(text).unwrap()["items"][3]);
    // Nothing else changes.
    let others = self::documents(true);
    for path in [DVP, OWN, "/apis/kubevirt.subresources.vmpool.dev/v1alpha1"] {
        assert_eq!(documents.text(path), others.text(path));
    }
    assert_eq!(others.text(REFERENCE[0]), None, "KubeVirt owns its group");
}

/// An APIService whose group has no document is unavailable, and blocks the deletion of every namespace.
#[test]
fn beside_kubevirt_its_group_is_listed_without_resources() {
    let documents = Documents::new(STANDALONE_APIS, STANDALONE_APIS.without_reference());
    for path in REFERENCE {
        assert!(names(&documents, path).is_empty(), "{path}");
        let openapi = documents.text(&format!("/openapi/v3{path}")).unwrap();
        assert!(!String::from_utf8_lossy(openapi).contains("expand-spec"), "{path}");
    }
    let text = &documents.content().aggregated[0].1.text;
    let list: APIGroupDiscoveryList = serde_json::from_slice(text).unwrap();
    assert!(list.items.last().unwrap().versions.iter().all(|version| version.resources.is_empty()));
}

/// Both formats list the same, as clients of the aggregated one compute it: a resource without a kind is only
/// the place of its subresources.
#[test]
fn both_formats_list_the_same_resources() {
    let documents = Documents::new(STANDALONE_APIS, STANDALONE_APIS);
    let text = &documents.content().aggregated[0].1.text;
    let list: Value = serde_json::from_slice(text).unwrap();
    for group in list["items"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let mut aggregated = Vec::new();
            for resource in version["resources"].as_array().unwrap() {
                let name = resource["resource"].as_str().unwrap();
                if resource["responseKind"] != json!({}) {
                    assert_ne!(resource["verbs"], json!([]), "{name}");
                    aggregated.push(name.to_owned());
                }
                for subresource in resource["subresources"].as_array().unwrap() {
                    aggregated.push(format!("{name}/{}", subresource["subresource"].as_str().unwrap()));
                }
            }
            let path = format!(
                "/apis/{}/{}",
                group["metadata"]["name"].as_str().unwrap(),
                version["version"].as_str().unwrap()
            );
            let mut unaggregated = names(&documents, &path);
            aggregated.sort();
            unaggregated.sort();
            assert_eq!(aggregated, unaggregated, "{path}");
        }
    }
}

#[test]
fn with_the_gate_off_no_document_contains_resources() {
    let content = documents(false);
    let list: APIResourceList = serde_json::from_slice(content.text(OWN).unwrap()).unwrap();
    assert!(list.resources.is_empty());
    let list: APIGroupDiscoveryList = serde_json::from_slice(&aggregated(false)).unwrap();
    assert!(list.items.iter().all(|group| group.versions[0].resources.is_empty()));
    for (path, document) in &content.content().plain {
        let text = String::from_utf8_lossy(&document.text);
        assert!(!text.contains("scaledownwith"), "{path} contains the subresource");
    }
}

#[test]
fn the_format_is_the_accepted_one() {
    let media_type = |accept: &str| {
        get("/apis", &[(header::ACCEPT, accept)]).unwrap().headers()[header::CONTENT_TYPE].clone()
    };
    assert_eq!(media_type("application/json"), "application/json");
    assert_eq!(media_type(kube::core::discovery::v2::ACCEPT_AGGREGATED_DISCOVERY_V2), DISCOVERY_V2);
    assert_eq!(media_type(DISCOVERY_V2BETA1), DISCOVERY_V2BETA1);
    assert_eq!(get(OWN, &[(header::ACCEPT, "text/plain")]).unwrap_err(), Error::NotAcceptable);
}

#[test]
fn an_unchanged_document_is_not_sent_again() {
    let response = get("/apis", &[]).unwrap();
    let tag = response.headers()[header::ETAG].to_str().unwrap().to_owned();
    assert!(tag.starts_with('"') && tag.len() == 66, "{tag}");
    for known in [tag.clone(), format!("\"other\", W/{tag}")] {
        let response = get("/apis", &[(header::IF_NONE_MATCH, &known)]).unwrap();
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(response.headers()[header::ETAG], *tag);
    }
    let other = get("/apis", &[(header::IF_NONE_MATCH, &tag), (header::ACCEPT, DISCOVERY_V2)]).unwrap();
    assert_eq!(other.status(), StatusCode::OK, "each format has its own tag");
}

#[test]
fn documents_can_only_be_read() {
    let answer = |method, path| documents(true).respond(&method, path, &HeaderMap::new());
    assert!(answer(Method::HEAD, "/apis").is_ok());
    assert_eq!(answer(Method::POST, "/apis").unwrap_err().code(), 405);
    assert_eq!(answer(Method::GET, "/apis/other").unwrap_err(), Error::UnknownPath);
    assert_eq!(answer(Method::GET, "/api").unwrap_err(), Error::UnknownPath);
}

#[test]
fn the_index_refers_to_existing_documents() {
    let index: Value = parsed("/openapi/v3");
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 3);
    for (path, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let (document, hash) = url.split_once("?hash=").unwrap();
        assert_eq!(document, format!("/openapi/v3/{path}"));
        let tag = get(document, &[]).unwrap().headers()[header::ETAG].clone();
        assert_eq!(tag, format!("\"{hash}\""));
    }
    let root: Value = parsed("/");
    for path in root["paths"].as_array().unwrap() {
        let path = path.as_str().unwrap();
        assert!(path.ends_with('z') || documents(true).text(path).is_some(), "{path}");
    }
}

#[test]
fn the_version_is_that_of_the_program() {
    let version: Value = parsed("/version");
    assert_eq!(version["gitVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
}
