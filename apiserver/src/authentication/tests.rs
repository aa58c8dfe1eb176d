use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use rstest::rstest;
use vmpool_runtime::https::Peer;
use vmpool_runtime::tls::{ClientCas, PeerCertificate};

use super::requestheader::ConfigError;
use super::*;
use crate::cluster::ClusterClient;
use crate::error::Error;
use crate::testing::{ApiServerWorld, FaultyServerStore, SETTINGS, front_proxy};

fn authenticator() -> Authenticator {
    let authenticator = Authenticator::default();
    authenticator.replace(Arc::new(RequestHeaders::parse(&front_proxy()).unwrap()));
    authenticator
}

fn peer(common_name: Option<&str>) -> Peer {
    let certificate = PeerCertificate { common_name: common_name.map(str::to_owned) };
    Peer { certificate: Some(certificate), address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)) }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

#[test]
fn the_caller_is_read_from_the_headers_of_the_front_proxy() {
    let headers = headers(&[
        ("x-remote-user", "älice"),
        ("x-remote-uid", "u1"),
        ("x-remote-group", "operators"),
        ("x-remote-group", "system:authenticated"),
        ("x-remote-extra-scopes", "a"),
        ("x-remote-extra-scopes", "b"),
        ("x-remote-extra-example.org%2fpath", "c"),
        ("x-other", "ignored"),
    ]);
    let user = authenticator().authenticate(Some(&peer(Some("front-proxy-client"))), &headers).unwrap();
    assert_eq!(user.name, "älice");
    assert_eq!(user.uid, "u1");
    assert_eq!(user.groups, ["operators", "system:authenticated"]);
    let scopes: Vec<(&str, Vec<&str>)> = user
        .extra
        .iter()
        .map(|(key, values)| (key.as_str(), values.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(scopes, [("example.org/path", vec!["c"]), ("scopes", vec!["a", "b"])]);
}

#[rstest]
#[case::the_group_is_added_to_a_user_without_it("system:aggregator", &[], &["system:authenticated"])]
#[case::an_unauthenticated_user("system:anonymous", &["system:unauthenticated"], &["system:unauthenticated"])]
#[case::an_anonymous_user_without_groups("system:anonymous", &[], &[])]
#[case::the_group_is_not_added_twice("bob", &["system:authenticated"], &["system:authenticated"])]
fn the_authenticated_group_is_complete(#[case] name: &str, #[case] given: &[&str], #[case] groups: &[&str]) {
    let mut pairs = vec![("x-remote-user", name)];
    pairs.extend(given.iter().map(|group| ("x-remote-group", *group)));
    let user =
        authenticator().authenticate(Some(&peer(Some("front-proxy-client"))), &headers(&pairs)).unwrap();
    assert_eq!(user.groups, groups);
}

#[test]
fn callers_without_the_front_proxy_or_without_a_name_are_unauthorized() {
    let authenticator = authenticator();
    let named = headers(&[("x-remote-user", "alice"), ("authorization", "Bearer token")]);
    let without_certificate = Peer { certificate: None, ..peer(None) };
    for peer in [None, Some(&without_certificate), Some(&peer(Some("another-client"))), Some(&peer(None))] {
        assert_eq!(authenticator.authenticate(peer, &named), Err(Error::Unauthorized), "{peer:?}");
    }
    let proxy = peer(Some("front-proxy-client"));
    for headers in
        [headers(&[]), headers(&[("x-remote-user", "")]), headers(&[("x-forwarded-user", "alice")])]
    {
        assert_eq!(
            authenticator.authenticate(Some(&proxy), &headers),
            Err(Error::Unauthorized),
            "{headers:?}"
        );
    }
    assert_eq!(Authenticator::default().authenticate(Some(&proxy), &named), Err(Error::Unauthorized));
}

#[test]
fn without_allowed_names_every_verified_certificate_is_accepted() {
    let authenticator = Authenticator::default();
    let mut data = front_proxy();
    data.insert("requestheader-allowed-names".to_owned(), "[]".to_owned());
    authenticator.replace(Arc::new(RequestHeaders::parse(&data).unwrap()));
    let named = headers(&[("x-remote-user", "alice")]);
    assert!(authenticator.authenticate(Some(&peer(None)), &named).is_ok());
    assert!(authenticator.authenticate(None, &named).is_err());
}

#[test]
fn the_first_configured_header_that_is_present_is_used() {
    let mut data = front_proxy();
    data.insert("requestheader-username-headers".to_owned(), r#"["X-First","X-Remote-User"]"#.to_owned());
    let config = RequestHeaders::parse(&data).unwrap();
    assert_eq!(config.user(&headers(&[("x-remote-user", "b")])).unwrap().name, "b");
    assert_eq!(config.user(&headers(&[("x-remote-user", "b"), ("x-first", "a")])).unwrap().name, "a");
}

#[rstest]
#[case::no_authority(
    "requestheader-client-ca-file",
    "",
    ConfigError::Missing("requestheader-client-ca-file")
)]
#[case::no_user(
    "requestheader-username-headers",
    "[]",
    ConfigError::Missing("requestheader-username-headers")
)]
#[case::no_list(
    "requestheader-group-headers", "X-Remote-Group", ConfigError::NotAList { key: "requestheader-group-headers" }
)]
#[case::no_header(
    "requestheader-uid-headers",
    r#"["a b"]"#,
    ConfigError::NotAHeader { key: "requestheader-uid-headers", name: "a b".to_owned() }
)]
fn invalid_configurations(#[case] key: &str, #[case] value: &str, #[case] error: ConfigError) {
    let mut data = front_proxy();
    data.insert(key.to_owned(), value.to_owned());
    assert_eq!(RequestHeaders::parse(&data), Err(error));
}

fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.self_signed(&key).unwrap().pem()
}

#[tokio::test]
async fn a_changed_configuration_takes_effect_without_a_restart() {
    let world = ApiServerWorld::new(1);
    let (authenticator, clients) = (Authenticator::default(), ClientCas::none());
    let cluster = ClusterClient::new(world.server.client(), world.env.clone(), SETTINGS.request_timeout);
    let following =
        follow_front_proxy_config(cluster, authenticator.clone(), clients.clone(), world.env.clone());
    let _following = world.env.spawn("following", following);
    let wait = async |seconds| world.clock.advance(Duration::from_secs(seconds)).await;
    let set = |user: &str, pem: &str| {
        let mut data = front_proxy();
        data.insert("requestheader-client-ca-file".to_owned(), pem.to_owned());
        data.insert("requestheader-username-headers".to_owned(), format!("[\"{user}\"]"));
        world.server.store(|store| store.configure(&data));
    };
    let proxy = peer(Some("front-proxy-client"));
    let name = |header: &'static str| {
        authenticator.authenticate(Some(&proxy), &headers(&[(header, "alice")])).is_ok()
    };

    wait(3).await;
    assert!(authenticator.check().is_err() && !clients.is_ready(), "the ConfigMap does not exist yet");
    set("X-Remote-User", &authority());
    wait(2).await;
    assert!(authenticator.check().is_ok() && clients.is_ready());
    assert!(name("x-remote-user"));

    set("X-Other-User", &authority());
    wait(11).await;
    assert!(name("x-other-user") && !name("x-remote-user"), "the new headers are used");

    // An invalid or missing ConfigMap changes nothing.
    set("X-Third-User", "no certificate");
    wait(11).await;
    assert!(name("x-other-user") && !name("x-third-user"));
    world.server.store(FaultyServerStore::delete_configuration);
    wait(11).await;
    assert!(name("x-other-user"));
    set("X-Third-User", &authority());
    wait(11).await;
    assert!(name("x-third-user"));
}
