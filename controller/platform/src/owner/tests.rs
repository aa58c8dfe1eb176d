use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rstest::rstest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

#[derive(Clone, Debug, Deserialize)]
struct ExamplePool {
    metadata: ObjectMeta,
}

#[derive(Clone, Debug, Deserialize)]
struct ExampleMachine {
    metadata: ObjectMeta,
}

crate::api_object!(ExamplePool, "pools.example.com", "v1", "Pool", "pools");
crate::api_object!(ExampleMachine, "example.com", "v1", "Machine", "machines");

const UID: &str = "uid-of-the-pool";

/// Metadata with these owners.
fn owned(owners: &Value) -> ObjectMeta {
    serde_json::from_value(json!({ "name": "web-0", "namespace": "team-a", "ownerReferences": owners }))
        .unwrap()
}

fn controller(api_version: &str, kind: &str) -> ObjectMeta {
    owned(&json!([
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "first", "uid": UID },
        { "apiVersion": api_version, "kind": kind, "name": "web", "uid": UID, "controller": true },
    ]))
}

#[rstest]
#[case::its_own_version("pools.example.com/v1", "Pool", OwnerKind::Pool)]
#[case::another_version("pools.example.com/v2", "Pool", OwnerKind::Pool)]
#[case::a_machine("example.com/v1", "Machine", OwnerKind::Machine)]
#[case::another_kind("pools.example.com/v1", "Machine", OwnerKind::Other)]
#[case::another_group("example.com/v1", "Pool", OwnerKind::Other)]
#[case::a_longer_group("x.pools.example.com/v1", "Pool", OwnerKind::Other)]
#[case::no_group("v1", "Pool", OwnerKind::Other)]
fn an_owner_counts_with_group_and_kind(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] expected: OwnerKind,
) {
    let metadata = controller(api_version, kind);
    let owner = owner_of::<ExamplePool, ExampleMachine>(&metadata).unwrap();
    assert_eq!(owner, Owner { kind: expected, id: ObjectId::new("web", UID) });
    let pool = ObjectId::new("web", UID);
    assert_eq!(is_controlled_by::<ExamplePool>(&metadata, &pool), expected == OwnerKind::Pool);
}

#[rstest]
#[case::another_name(ObjectId::new("db", UID))]
#[case::another_uid(ObjectId::new("web", "uid-of-its-successor"))]
fn an_owner_counts_with_name_and_uid(#[case] pool: ObjectId) {
    assert!(!is_controlled_by::<ExamplePool>(&controller("pools.example.com/v1", "Pool"), &pool));
}

#[test]
fn an_owner_that_is_not_the_controller_does_not_count() {
    let metadata = owned(&json!([
        { "apiVersion": "pools.example.com/v1", "kind": "Pool", "name": "web", "uid": UID },
    ]));
    assert_eq!(owner_of::<ExamplePool, ExampleMachine>(&metadata), None);
    assert_eq!(shared_owner_of::<ExamplePool, ExampleMachine>(&metadata), None);
}
