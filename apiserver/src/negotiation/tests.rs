use http::HeaderValue;
use rstest::rstest;

use super::*;

fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_str(value).unwrap());
    headers
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[rstest]
#[case::plain("application/json", true, Some(ResponseFormat::Plain))]
#[case::anything("*/*", true, Some(ResponseFormat::Plain))]
#[case::with_a_weight("application/json;q=0.5", true, Some(ResponseFormat::Plain))]
#[case::aggregated(DISCOVERY_V2, true, Some(ResponseFormat::DiscoveryV2))]
#[case::aggregated_with_a_profile(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer",
    true,
    Some(ResponseFormat::DiscoveryV2)
)]
#[case::the_first_supported_media_type(
    "application/vnd.kubernetes.protobuf;as=X, application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
    true,
    Some(ResponseFormat::DiscoveryV2Beta1)
)]
#[case::aggregated_for_another_document(DISCOVERY_V2, false, None)]
#[case::a_table_or_plain_json(TABLE, false, Some(ResponseFormat::Plain))]
#[case::only_a_table("application/json;as=Table;v=v1;g=meta.k8s.io", false, None)]
#[case::only_protobuf("application/vnd.kubernetes.protobuf", true, None)]
#[case::another_version("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList", true, None)]
fn the_format_follows_from_the_accept_header(
    #[case] value: &str,
    #[case] discovery: bool,
    #[case] form: Option<ResponseFormat>,
) {
    let expected = form.ok_or(Error::NotAcceptable);
    assert_eq!(accepted_format(&headers(header::ACCEPT, value), discovery), expected);
}

#[test]
fn without_headers_json_is_accepted_and_sent() {
    assert_eq!(accepted_format(&HeaderMap::new(), true), Ok(ResponseFormat::Plain));
    assert_eq!(check_content_type(&HeaderMap::new()), Ok(()));
}

#[rstest]
#[case("application/json", true)]
#[case("Application/JSON; charset=utf-8", true)]
#[case("application/yaml", false)]
#[case("application/vnd.kubernetes.protobuf", false)]
#[case("text/plain", false)]
fn only_json_bodies_are_accepted(#[case] value: &str, #[case] is_json: bool) {
    assert_eq!(check_content_type(&headers(header::CONTENT_TYPE, value)).is_ok(), is_json);
}
