use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rstest::rstest;

use vmpool_api::subresources::{DVP, TargetedRemoval};
use vmpool_platforms::removal::APIS;

use super::*;

fn request(body: &str) -> Result<RemovalRequest, String> {
    read_removal_request(body.as_bytes(), "", APIS, &APIS.removal[1], "team-a", "web")
        .map_err(|error| error.to_string())
}

fn names(request: &RemovalRequest) -> Vec<&str> {
    request.targets.iter().map(|target| target.name.as_str()).collect()
}

#[rstest]
#[case::names_alone(r#"{"targets":["a","b"]}"#)]
#[case::with_its_kind(
    r#"{"apiVersion":"subresources.vmpool.dev/v1alpha1","kind":"VirtualMachinePoolScaleDownWith","targets":["a","b"]}"#
)]
#[case::of_the_other_group(
    r#"{"apiVersion":"subresources.virtualization.deckhouse.io/v1alpha2","kind":"VirtualMachinePoolScaleDownWith","targets":["a","b"]}"#
)]
#[case::of_a_typed_client(
    r#"{"apiVersion":"","kind":"","metadata":{"creationTimestamp":null,"name":"web","namespace":"team-a"},"targets":["a","b"],"dryRun":null}"#
)]
#[case::a_repeated_target_counts_once(r#"{"targets":["a","b","a"]}"#)]
#[case::in_several_lines("\n {\n \"targets\": [\n \"a\",\n \"b\" ]\n}\n")]
fn valid_bodies(#[case] body: &str) {
    let request = request(body).unwrap();
    assert_eq!(names(&request), ["a", "b"]);
    assert!(!request.dry_run && request.pool_uid.is_none());
}

#[test]
fn the_type_of_clients_is_read() {
    let removal = TargetedRemoval::of(["a"])
        .target("b", "u-b")
        .pool_uid("u-pool")
        .force()
        .dry_run()
        .api_version(DVP.api_version());
    let target = |name: &str, uid: Option<&str>| RequestedTarget {
        name: name.to_owned(),
        uid: uid.map(str::to_owned),
    };
    let read = request(&serde_json::to_string(&removal).unwrap()).unwrap();
    assert_eq!(
        read,
        RemovalRequest {
            targets: vec![target("a", None), target("b", Some("u-b"))],
            pool_uid: Some("u-pool".to_owned()),
            dry_run: true,
            force: true,
        }
    );
}

#[rstest]
#[case::empty("", "the body is empty")]
#[case::blank(" \n", "the body is empty")]
#[case::not_json("targets: [a]", "not a JSON object")]
#[case::cut_off(r#"{"targets":["a""#, "EOF")]
#[case::trailing_text(r#"{"targets":["a"]} {}"#, "trailing characters")]
#[case::a_list(r#"[null,null,null,["a"]]"#, "not a JSON object")]
#[case::no_targets("{}", "with a non-empty list of targets")]
#[case::null_targets(r#"{"targets":null}"#, "with a non-empty list of targets")]
#[case::empty_targets(r#"{"targets":[]}"#, "with a non-empty list of targets")]
#[case::targets_of_another_type(r#"{"targets":"a"}"#, "expected a sequence")]
#[case::an_unknown_field(r#"{"targets":["a"],"target":"b"}"#, "unknown field `target`")]
#[case::an_unknown_precondition(
    r#"{"targets":["a"],"preconditions":{"resourceVersion":"1"}}"#,
    "unknown field `resourceVersion`"
)]
#[case::a_field_twice(r#"{"targets":["a"],"targets":["b"]}"#, "duplicate field")]
#[case::another_kind(r#"{"kind":"Eviction","targets":["a"]}"#, "the kind of the body is \"Eviction\"")]
#[case::another_version(r#"{"apiVersion":"v1","targets":["a"]}"#, "apiVersion \"v1\" is not served")]
#[case::another_pool(r#"{"metadata":{"name":"db"},"targets":["a"]}"#, "metadata.name is \"db\"")]
#[case::another_namespace(r#"{"metadata":{"namespace":"b"},"targets":["a"]}"#, "metadata.namespace is \"b\"")]
#[case::no_name(r#"{"targets":[""]}"#, "is not a valid name")]
#[case::a_path_as_a_name(r#"{"targets":["../secrets"]}"#, "is not a valid name")]
#[case::another_dry_run(r#"{"targets":["a"],"dryRun":["Some"]}"#, "the only value is \"All\"")]
#[case::too_many_uids(r#"{"targets":["a"],"targetUIDs":["1","2"]}"#, "send one UID for each target")]
fn invalid_bodies(#[case] body: &str, #[case] message: &str) {
    let error = request(body).unwrap_err();
    assert!(error.contains(message), "{error}");
}

#[test]
fn a_request_has_at_most_a_thousand_targets() {
    let body = |count: usize| {
        let targets: Vec<String> = (0..count).map(|index| format!("m{index}")).collect();
        serde_json::json!({ "targets": targets }).to_string()
    };
    assert_eq!(request(&body(1000)).unwrap().targets.len(), 1000);
    assert!(request(&body(1001)).unwrap_err().contains("1001 targets, but at most 1000 are allowed"));
}

#[test]
fn the_longest_valid_body_is_shorter_than_the_limit() {
    let names: Vec<String> = (0..1000).map(|index| format!("{index:0>63}")).collect();
    let uids: Vec<String> = (0..1000).map(|index| format!("{index:0>36}")).collect();
    let body = serde_json::json!({ "targets": names, "targetUIDs": uids });
    let pretty = serde_json::to_string_pretty(&body).unwrap();
    assert!(pretty.len() > 64 * 1024 && pretty.len() * 2 < MAX_LENGTH, "{}", pretty.len());
    assert_eq!(request(&pretty).unwrap().targets.len(), 1000);
}

#[test]
fn uids_are_matched_to_targets_by_position() {
    let request =
        request(r#"{"targets":["a","b","a"],"targetUIDs":["1","","1"],"preconditions":{"uid":"p"}}"#)
            .unwrap();
    let named =
        |name: &str, uid: Option<&str>| RequestedTarget { name: name.into(), uid: uid.map(Into::into) };
    assert_eq!(request.targets, [named("a", Some("1")), named("b", None)]);
    assert_eq!(request.pool_uid.as_deref(), Some("p"));
}

#[rstest]
#[case("dryRun=All", true)]
#[case("dryRun=All&dryRun=All", true)]
#[case("fieldValidation=Strict&fieldManager=a&timeout=3s", false)]
#[case("dryrun=All", false)]
fn the_query_can_request_a_dry_run(#[case] query: &str, #[case] dry_run: bool) {
    assert_eq!(
        read_removal_request(br#"{"targets":["a"]}"#, query, APIS, &APIS.removal[1], "n", "p")
            .unwrap()
            .dry_run,
        dry_run
    );
}

#[rstest]
#[case("dryRun=")]
#[case("dryRun")]
#[case("dryRun=all")]
#[case("dryRun=All&dryRun=None")]
fn unknown_dry_run_values_are_refused(#[case] query: &str) {
    assert!(read_removal_request(br#"{"targets":["a"]}"#, query, APIS, &APIS.removal[1], "n", "p").is_err());
}

/// The number of bodies. `VMPOOL_FUZZ_CASES` replaces it.
fn cases() -> u32 {
    std::env::var("VMPOOL_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(20_000)
}

/// JSON of any shape that contains the texts of valid bodies.
fn json() -> impl Strategy<Value = Value> {
    let texts = prop::sample::select(vec![
        "targets",
        "targetUIDs",
        "dryRun",
        "All",
        "kind",
        "apiVersion",
        "metadata",
        "name",
        "preconditions",
        "uid",
        "VirtualMachinePoolScaleDownWith",
        "subresources.vmpool.dev/v1alpha1",
        "web",
        "web-0",
        "",
        "\u{0}",
        "é",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        texts.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        let map = prop::collection::hash_map(texts.clone().prop_map(str::to_owned), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            map.prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// A valid body with a few bytes changed, removed or inserted.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let valid = br#"{"apiVersion":"subresources.vmpool.dev/v1alpha1","kind":"VirtualMachinePoolScaleDownWith","metadata":{"name":"web"},"targets":["web-0","web-1"],"targetUIDs":["u0","u1"],"preconditions":{"uid":"p"},"dryRun":["All"]}"#;
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..6).prop_map(|changes| {
        let mut body = valid.to_vec();
        for (index, byte, change) in changes {
            if body.is_empty() {
                break;
            }
            let index = index.index(body.len());
            match change {
                0 => body[index] = byte,
                1 => drop(body.remove(index)),
                2 => body.insert(index, byte),
                _ => body.truncate(index),
            }
        }
        body
    })
}

#[test]
fn any_body_and_query_is_refused_or_read_as_a_valid_request() {
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        json().prop_map(|json| json.to_string().into_bytes()),
        mutated(),
    ];
    let valid = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(
            &(body, "(&?(dryRun|fieldValidation|%zz|\\PC{0,3})=?(All|%41ll|\\PC{0,4})?){0,3}"),
            |(body, query)| {
                match read_removal_request(&body, &query, APIS, &APIS.removal[1], "team-a", "web") {
                    Ok(request) => {
                        valid.set(valid.get() + 1);
                        prop_assert!(!request.targets.is_empty() && request.targets.len() <= MAX_TARGETS);
                        prop_assert!(request.targets.iter().all(|target| is_dns_subdomain(&target.name)));
                    }
                    Err(error) => prop_assert!(!error.to_string().is_empty()),
                }
                Ok(())
            },
        )
        .unwrap();
    assert!(valid.get() > 100, "only {} of the bodies are valid", valid.get());
}
