use rstest::rstest;
use serde_json::{Value, json};

use super::server::{SECRET, encode};
use super::world::CertificateWorld;
use super::{MINUTE, default_timing};
use crate::certificates::metrics::Rotated;
use crate::tls::pki::Ca;

/// The number of authorities and serving certificates that the repair issued.
type Cost = (u64, u64);

#[rstest]
#[case::no_serving_certificate("tls.crt", Value::Null, (0, 1))]
#[case::an_empty_serving_certificate("tls.crt", encode(b""), (0, 1))]
#[case::an_invalid_serving_certificate("tls.crt", encode(b"hello"), (0, 1))]
#[case::a_serving_certificate_of_another_authority("tls.crt", encode(&foreign()), (0, 1))]
#[case::no_serving_key("tls.key", Value::Null, (0, 1))]
#[case::a_serving_key_of_another("tls.key", encode(&another_key()), (0, 1))]
#[case::no_bundle("ca.crt", Value::Null, (1, 1))]
#[case::an_invalid_bundle("ca.crt", encode(b"\xff\x00"), (1, 1))]
#[case::a_bundle_of_another("ca.crt", encode(Ca::new("another").pem().as_bytes()), (1, 1))]
#[case::no_authority_key("ca.key", Value::Null, (1, 1))]
#[case::an_authority_key_of_another("ca.key", encode(&another_key()), (1, 1))]
#[case::an_invalid_authority_key("ca.key", encode(b"-----BEGIN"), (1, 1))]
#[tokio::test]
async fn invalid_data_is_repaired(#[case] key: &str, #[case] value: Value, #[case] cost: Cost) {
    let mut world = CertificateWorld::settled(default_timing()).await;
    world.server.change(SECRET, |secret| match value {
        Value::Null => drop(secret["data"].as_object_mut().unwrap().remove(key)),
        value => secret["data"][key] = value,
    });
    world.pass(30 * MINUTE).await;
    world.check();
    let made = (world.made(Rotated::Authority) - 1, world.made(Rotated::Serving) - 1);
    assert_eq!(made, cost);
    let shown = world.replicas[0].identity.chain();
    assert!(world.replicas.iter().all(|replica| replica.identity.chain() == shown));
}

#[tokio::test]
async fn a_bundle_with_one_invalid_authority_keeps_the_other() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    let good = world.server.secret("ca.crt");
    let broken = [&good[..], b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"].concat();
    world.server.change(SECRET, |secret| secret["data"]["ca.crt"] = encode(&broken));
    world.pass_checking(5 * MINUTE, MINUTE).await;
    assert_eq!(world.server.secret("ca.crt"), good);
    assert_eq!(world.made(Rotated::Serving), 1);
}

#[tokio::test]
async fn a_deleted_or_emptied_secret_is_created_again() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    world.server.delete(SECRET);
    world.pass(3 * MINUTE).await;
    world.check();
    world.server.change(SECRET, |secret| secret["data"] = json!({}));
    world.pass(3 * MINUTE).await;
    world.check();
    assert_eq!(world.made(Rotated::Authority), 3);
}

#[tokio::test]
async fn the_number_of_authorities_in_a_bundle_is_limited() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    for _ in 0..20 {
        world.server.change(SECRET, |secret| secret["data"]["ca.key"] = Value::Null);
        world.pass_checking(20 * MINUTE, MINUTE).await;
    }
    let bundle = crate::tls::parse_certificates("bundle", &world.server.secret("ca.crt")).unwrap();
    assert!((2..=9).contains(&bundle.len()), "{}", bundle.len());
}

fn foreign() -> Vec<u8> {
    Ca::new("another").serving(super::NAME).chain.into_bytes()
}

fn another_key() -> Vec<u8> {
    Ca::new("another").serving(super::NAME).key.into_bytes()
}
