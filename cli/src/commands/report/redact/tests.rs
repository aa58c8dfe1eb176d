use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

/// What no report may contain.
const SECRET: &str = "s3cret-of-the-user";

#[rstest]
#[case::cloud_init(
    json!({ "volumes": [{ "name": "c", "cloudInitNoCloud": { "userData": "abc" } }] }),
    json!({ "volumes": [{ "name": "c", "cloudInitNoCloud": "redacted (18 bytes)" }] })
)]
#[case::provisioning(
    json!({ "provisioning": { "type": "UserData", "userData": "abc" } }),
    json!({ "provisioning": "redacted (36 bytes)" })
)]
#[case::environment(
    json!({ "env": [{ "name": "A", "value": "abc" }, { "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "x" } } }] }),
    json!({ "env": [{ "name": "A", "value": "redacted (3 bytes)" }, { "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "x" } } }] })
)]
#[case::headers_of_a_download(
    json!({ "http": { "url": "https://a", "extraHeaders": ["X-Mirror: eu"], "secretExtraHeaders": ["s"] } }),
    json!({ "http": { "url": "https://a", "extraHeaders": ["redacted (12 bytes)"],
        "secretExtraHeaders": ["s"] } })
)]
#[case::annotations(
    json!({ "annotations": {
        "vmpool.dev/protected-by": "ed", "kubectl.kubernetes.io/restartedAt": "x", "example.com/a": "abc", "plain": "abc",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    } }),
    json!({ "annotations": {
        "vmpool.dev/protected-by": "ed", "kubectl.kubernetes.io/restartedAt": "x",
        "example.com/a": "redacted (3 bytes)", "plain": "redacted (3 bytes)",
        "kubectl.kubernetes.io/last-applied-configuration": "redacted (2 bytes)",
    } })
)]
#[case::foreign_domain_with_a_known_end(
    json!({ "annotations": { "evilk8s.io/a": "abc" } }),
    json!({ "annotations": { "evilk8s.io/a": "redacted (3 bytes)" } })
)]
#[case::certificate_of_an_authority(
    json!({ "clientConfig": { "caBundle": "LS0t", "service": { "name": "w" } } }),
    json!({ "clientConfig": { "caBundle": "redacted (4 bytes)", "service": { "name": "w" } } })
)]
#[case::addresses(
    json!({ "status": { "podIP": "10.0.0.1", "podIPs": [{ "ip": "fd00::1" }] } }),
    json!({ "status": { "podIP": "redacted (8 bytes)", "podIPs": [{ "ip": "redacted (7 bytes)" }] } })
)]
#[case::template_in_an_annotation(
    json!({ "annotations": { "vmpool.dev/applied-template": "{\"cpu\":2,\"userData\":\"abc\"}" } }),
    json!({ "annotations": { "vmpool.dev/applied-template": "{\"cpu\":2,\"userData\":\"redacted (3 bytes)\"}" } })
)]
#[case::lines_in_an_unknown_field(json!({ "other": "a\nb" }), json!({ "other": "redacted (3 bytes)" }))]
#[case::lines_in_a_message(json!({ "message": "a\nb" }), json!({ "message": "a\nb" }))]
#[case::user_data_in_a_message(
    json!({ "message": "bad:\n#cloud-config" }),
    json!({ "message": "redacted (18 bytes)" })
)]
#[case::managed_fields(json!({ "managedFields": [{ "manager": "x" }], "name": "a" }), json!({ "name": "a" }))]
#[case::switches_stay(
    json!({ "automountServiceAccountToken": false, "provisioning": null }),
    json!({ "automountServiceAccountToken": false, "provisioning": null })
)]
fn secrets_are_redacted_and_facts_stay(#[case] object: Value, #[case] expected: Value) {
    assert_eq!(redact_value(&object), expected);
}

#[test]
fn the_state_of_a_pool_stays() {
    let pool = json!({
        "metadata": { "name": "web", "uid": "3f0c1b8e-8a0c-4d43-9a0c-5c1fdb1f2b10", "generation": 3,
                      "creationTimestamp": "2026-11-24T18:00:00Z" },
        "spec": { "replicas": 3, "virtualMachineTemplate": { "spec": { "memory": { "size": "1Gi" } } } },
        "status": { "conditions": [{ "type": "Ready", "status": "True", "message": "3 machines are ready" }] },
    });
    assert_eq!(redact_value(&pool), pool);
}

/// A step from a value to one that contains it.
#[derive(Clone, Debug)]
enum Wrapper {
    Field(&'static str),
    Item,
    /// The value as the text of a field.
    Text(&'static str),
}

impl Wrapper {
    fn wrap(&self, inner: &Value) -> Value {
        match self {
            Self::Field(name) => json!({ "name": "a", (*name): inner }),
            Self::Item => json!(["a", inner]),
            Self::Text(name) => json!({ (*name): inner.to_string() }),
        }
    }
}

fn wrappers() -> impl Strategy<Value = Vec<Wrapper>> {
    let name = prop::sample::select(vec!["spec", "template", "data", "message", "annotations", "items", "x"]);
    let text = prop::sample::select(vec!["data", "message", "content"]);
    let one = prop_oneof![name.prop_map(Wrapper::Field), Just(Wrapper::Item), text.prop_map(Wrapper::Text)];
    vec(one, 0..8)
}

/// A value with a secret that its field or its form discloses.
fn secret_values() -> impl Strategy<Value = Value> {
    let fields = prop::sample::select(vec![
        "cloudInitNoCloud",
        "cloudInitConfigDrive",
        "provisioning",
        "userData",
        "userDataBase64",
        "networkData",
        "USERDATA",
    ]);
    let content = prop_oneof![
        Just(json!(SECRET)),
        Just(json!({ "userData": SECRET })),
        Just(json!([[SECRET], { "a": SECRET }])),
    ];
    prop_oneof![
        (fields, content).prop_map(|(field, content)| json!({ (field): content })),
        Just(json!({ "env": [{ "name": "A", "value": SECRET }] })),
        Just(json!({ "annotations": { "example.com/a": SECRET } })),
        Just(json!({ "password": SECRET, "caBundle": SECRET, "bearerToken": SECRET })),
        Just(json!({ "unknown": format!("#cloud-config\npassword: {SECRET}") })),
        Just(json!({ "unknown": format!("#!/bin/sh {SECRET}") })),
        Just(json!({ "unknown": format!("a: 1\nb: {SECRET}") })),
        Just(json!({ "args": [format!("--token={SECRET}"), format!("https://a:{SECRET}@host/")] })),
    ]
}

proptest! {
    #[test]
    fn nothing_that_looks_like_user_data_survives(
        secret in secret_values(),
        wrappers in wrappers(),
    ) {
        let object = wrappers.iter().fold(secret, |inner, wrapper| wrapper.wrap(&inner));
        let redacted = redact_value(&object).to_string();
        prop_assert!(!redacted.contains(SECRET), "{object}\n{redacted}");
    }

    #[test]
    fn no_address_survives(
        address in any::<std::net::IpAddr>(),
        before in prop::sample::select(vec!["", "at ", "https://", "(", "ip=", "x\n"]),
        after in prop::sample::select(vec!["", ".", ", ", "/24", ")", " is used"]),
    ) {
        let text = format!("{before}{address}{after}");
        let redacted = redact_value(&json!({ "message": text, "other": [text] })).to_string();
        prop_assert!(!redacted.contains(&address.to_string()), "{redacted}");
    }
}
