use rstest::rstest;

use super::*;

fn of(method: &str, uri: &str) -> Option<RequestInfo> {
    RequestInfo::of(&method.parse().unwrap(), &uri.parse().unwrap())
}

fn non_resource(path: &str, verb: &str) -> RequestInfo {
    RequestInfo::NonResource { path: path.to_owned(), verb: verb.to_owned() }
}

#[rstest]
#[case::the_root("GET", "/", "/", "get")]
#[case::a_trailing_slash_is_ignored("GET", "/apis/", "/apis", "get")]
#[case::the_query_is_ignored("GET", "/openapi/v3/apis/g/v1?hash=1", "/openapi/v3/apis/g/v1", "get")]
#[case::a_version_is_no_resource("GET", "/apis/g/v1", "/apis/g/v1", "get")]
#[case::methods_are_verbs("DELETE", "/version", "/version", "delete")]
#[case::other_prefixes_have_no_resources("GET", "/other/g/v1/things/one", "/other/g/v1/things/one", "get")]
fn non_resource_paths(#[case] method: &str, #[case] uri: &str, #[case] path: &str, #[case] verb: &str) {
    assert_eq!(of(method, uri), Some(non_resource(path, verb)));
}

#[rstest]
#[case::read("GET", "/apis/g/v1/namespaces/ns/pools/web", "ns", "pools", "web", "", "get")]
#[case::read_the_head("HEAD", "/apis/g/v1/namespaces/ns/pools/web", "ns", "pools", "web", "", "get")]
#[case::list("GET", "/apis/g/v1/namespaces/ns/pools", "ns", "pools", "", "", "list")]
#[case::over_all_namespaces("GET", "/apis/g/v1/pools", "", "pools", "", "", "list")]
#[case::create_a_subresource(
    "POST",
    "/apis/g/v1/namespaces/ns/pools/web/sub",
    "ns",
    "pools",
    "web",
    "sub",
    "create"
)]
#[case::replace("PUT", "/apis/g/v1/namespaces/ns/pools/web", "ns", "pools", "web", "", "update")]
#[case::patch("PATCH", "/apis/g/v1/namespaces/ns/pools/web", "ns", "pools", "web", "", "patch")]
#[case::delete_one("DELETE", "/apis/g/v1/namespaces/ns/pools/web", "ns", "pools", "web", "", "delete")]
#[case::delete_all("DELETE", "/apis/g/v1/namespaces/ns/pools", "ns", "pools", "", "", "deletecollection")]
#[case::a_method_that_no_role_grants("TRACE", "/apis/g/v1/pools", "", "pools", "", "", "unknown")]
#[case::a_namespace_itself("GET", "/apis/g/v1/namespaces/ns", "", "namespaces", "ns", "", "get")]
#[case::an_encoded_slash_stays_in_its_name(
    "GET",
    "/apis/g/v1/namespaces/ns/pools/a%2Fb",
    "ns",
    "pools",
    "a/b",
    "",
    "get"
)]
fn resource_paths(
    #[case] method: &str,
    #[case] uri: &str,
    #[case] namespace: &str,
    #[case] resource: &str,
    #[case] name: &str,
    #[case] subresource: &str,
    #[case] verb: &'static str,
) {
    let request = ResourceRequest {
        group: "g".to_owned(),
        version: "v1".to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        verb,
        has_more_segments: false,
    };
    assert_eq!(of(method, uri), Some(RequestInfo::Resource(request)));
}

#[test]
fn segments_after_the_subresource_are_detected() {
    let Some(RequestInfo::Resource(request)) = of("POST", "/apis/g/v1/namespaces/ns/pools/web/sub/more")
    else {
        panic!("not a resource request")
    };
    assert!(request.has_more_segments);
}

#[test]
fn a_path_that_is_not_utf8_is_none() {
    assert_eq!(of("GET", "/apis/g/v1/pools/%ff"), None);
}
