use jiff::Timestamp;
use rstest::rstest;

use super::pki::Ca;
use super::{ClientCas, ServingIdentity, TlsError};

fn identity() -> (ServingIdentity, Ca) {
    let ca = Ca::new("ca");
    let leaf = ca.serving("localhost");
    let identity = ServingIdentity::new();
    identity.replace(leaf.chain.as_bytes(), leaf.key.as_bytes()).unwrap();
    (identity, ca)
}

#[test]
fn an_identity_is_ready_once_it_has_a_certificate() {
    let identity = ServingIdentity::new();
    assert_eq!((identity.is_ready(), identity.expires()), (false, None));
    let end: Timestamp = "2031-05-06T07:08:09Z".parse().unwrap();
    let leaf = Ca::new("ca").serving_until("localhost", end);
    identity.clone().replace(leaf.chain.as_bytes(), leaf.key.as_bytes()).unwrap();
    assert_eq!((identity.is_ready(), identity.expires()), (true, Some(end)));
}

#[test]
fn a_chain_expires_with_its_first_certificate() {
    let (ca, end) = (Ca::new("ca"), "2031-05-06T07:08:09Z".parse().unwrap());
    let (own, early) = (ca.serving("localhost"), ca.serving_until("x", end));
    let identity = ServingIdentity::new();
    identity.replace(format!("{}{}", own.chain, early.chain).as_bytes(), own.key.as_bytes()).unwrap();
    assert_eq!(identity.expires(), Some(end));
}

#[rstest]
#[case::empty("", "the serving certificate has no `-----BEGIN CERTIFICATE-----` section")]
#[case::something_else("hello\n", "the serving certificate has no `-----BEGIN CERTIFICATE-----` section")]
#[case::cut_off(
    "-----BEGIN CERTIFICATE-----\nAAAA\n",
    "the serving certificate is not valid PEM: the line `-----END CERTIFICATE-----` is missing"
)]
#[case::not_base64(
    "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n",
    "the serving certificate is not valid PEM: a section is not base64"
)]
#[case::not_a_certificate(
    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "certificate 1 of the serving certificate is not a valid X.509 certificate"
)]
fn an_invalid_chain_is_refused_with_the_reason_and_changes_nothing(
    #[case] chain: &str,
    #[case] message: &str,
) {
    let (identity, ca) = identity();
    let before = identity.expires();
    let error = identity.replace(chain.as_bytes(), ca.serving("x").key.as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with(message), "{error}");
    assert_eq!(identity.expires(), before);
}

#[test]
fn a_key_must_exist_and_belong_to_the_certificate() {
    let (identity, ca) = identity();
    let (one, other) = (ca.serving("x"), ca.serving("y"));
    let chain = one.chain.as_bytes();
    assert_eq!(identity.replace(chain, other.key.as_bytes()), Err(TlsError::Mismatch));
    let none = identity.replace(chain, chain).unwrap_err();
    assert_eq!(none.to_string(), "the private key has no `-----BEGIN PRIVATE KEY-----` section");
    let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let broken = identity.replace(chain, broken.as_bytes()).unwrap_err();
    assert!(broken.to_string().starts_with("the private key is unusable: "), "{broken}");
}

#[test]
fn keys_are_not_in_debug_output() {
    assert_eq!(format!("{:?}", ServingIdentity::new()), "Identity { expires: None, .. }");
}

#[test]
fn client_authorities_are_replaced_as_a_whole_or_not_at_all() {
    let (clients, ca) = (ClientCas::none(), Ca::new("one"));
    assert!(!clients.is_ready());
    let broken = format!("{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ca.pem());
    let error = clients.replace(broken.as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with("certificate 2 of the client CA bundle is not"), "{error}");
    assert!(!clients.is_ready());
    assert_eq!(clients.replace(ca.pem().as_bytes()), Ok(true));
    assert_eq!((clients.is_ready(), clients.generation()), (true, 1));
    assert_eq!(clients.replace(ca.pem().as_bytes()), Ok(false));
    assert_eq!(clients.generation(), 1);
    assert!(matches!(clients.replace(b""), Err(TlsError::Missing { .. })));
    assert_eq!(clients.generation(), 1);
}
