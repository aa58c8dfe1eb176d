use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rstest::rstest;

use super::*;

fn wish(body: &str) -> Result<Wish, String> {
    read(body.as_bytes(), "", "team-a", "web").map_err(|error| error.to_string())
}

fn names(wish: &Wish) -> Vec<&str> {
    wish.targets.iter().map(|target| target.name.as_str()).collect()
}

#[rstest]
#[case::names_alone(r#"{"targets":["a","b"]}"#)]
#[case::with_its_kind(
    r#"{"apiVersion":"subresources.vmpool.dev/v1alpha1","kind":"VirtualMachinePoolScaleDownWith","targets":["a","b"]}"#
)]
#[case::made_for_the_other_group(
    r#"{"apiVersion":"subresources.virtualization.deckhouse.io/v1alpha2","kind":"VirtualMachinePoolScaleDownWith","targets":["a","b"]}"#
)]
#[case::as_a_typed_client_writes_it(
    r#"{"apiVersion":"","kind":"","metadata":{"creationTimestamp":null,"name":"web","namespace":"team-a"},"targets":["a","b"],"dryRun":null}"#
)]
#[case::twice_is_once(r#"{"targets":["a","b","a"]}"#)]
#[case::in_several_lines("\n {\n \"targets\": [\n \"a\",\n \"b\" ]\n}\n")]
fn understood(#[case] body: &str) {
    let wish = wish(body).unwrap();
    assert_eq!(names(&wish), ["a", "b"]);
    assert!(!wish.dry_run && wish.pool_uid.is_none());
}

#[rstest]
#[case::empty("", "the body is empty")]
#[case::blank(" \n", "the body is empty")]
#[case::not_json("targets: [a]", "not a JSON object")]
#[case::cut_off(r#"{"targets":["a""#, "EOF")]
#[case::something_behind_it(r#"{"targets":["a"]} {}"#, "trailing characters")]
#[case::a_list(r#"[null,null,null,["a"]]"#, "not a JSON object")]
#[case::no_targets("{}", "a non-empty list of targets is needed")]
#[case::null_targets(r#"{"targets":null}"#, "a non-empty list of targets is needed")]
#[case::empty_targets(r#"{"targets":[]}"#, "a non-empty list of targets is needed")]
#[case::targets_of_another_type(r#"{"targets":"a"}"#, "expected a sequence")]
#[case::an_unknown_field(r#"{"targets":["a"],"target":"b"}"#, "unknown field `target`")]
#[case::an_unknown_precondition(
    r#"{"targets":["a"],"preconditions":{"resourceVersion":"1"}}"#,
    "unknown field `resourceVersion`"
)]
#[case::a_field_twice(r#"{"targets":["a"],"targets":["b"]}"#, "duplicate field")]
#[case::another_kind(r#"{"kind":"Eviction","targets":["a"]}"#, "the body is a \"Eviction\"")]
#[case::another_version(r#"{"apiVersion":"v1","targets":["a"]}"#, "apiVersion \"v1\" is not served here")]
#[case::another_pool(r#"{"metadata":{"name":"db"},"targets":["a"]}"#, "metadata.name is \"db\"")]
#[case::another_namespace(r#"{"metadata":{"namespace":"b"},"targets":["a"]}"#, "metadata.namespace is \"b\"")]
#[case::no_name(r#"{"targets":[""]}"#, "cannot be the name")]
#[case::a_path_as_a_name(r#"{"targets":["../secrets"]}"#, "cannot be the name")]
#[case::another_dry_run(r#"{"targets":["a"],"dryRun":["Some"]}"#, "the only value is \"All\"")]
#[case::uids_for_others(r#"{"targets":["a"],"targetUIDs":["1","2"]}"#, "they belong together one by one")]
fn refused(#[case] body: &str, #[case] words: &str) {
    let error = wish(body).unwrap_err();
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_thousand_targets_are_the_most() {
    let body = |count: usize| {
        let targets: Vec<String> = (0..count).map(|index| format!("m{index}")).collect();
        serde_json::json!({ "targets": targets }).to_string()
    };
    assert_eq!(wish(&body(1000)).unwrap().targets.len(), 1000);
    assert!(wish(&body(1001)).unwrap_err().contains("1001 targets are too many: at most 1000"));
}

#[test]
fn the_longest_honest_body_is_shorter_than_the_limit() {
    let names: Vec<String> = (0..1000).map(|index| format!("{index:0>63}")).collect();
    let uids: Vec<String> = (0..1000).map(|index| format!("{index:0>36}")).collect();
    let body = serde_json::json!({ "targets": names, "targetUIDs": uids });
    let pretty = serde_json::to_string_pretty(&body).unwrap();
    assert!(pretty.len() > 64 * 1024 && pretty.len() * 2 < LIMIT, "{}", pretty.len());
    assert_eq!(wish(&pretty).unwrap().targets.len(), 1000);
}

#[test]
fn uids_belong_to_their_targets() {
    let wish =
        wish(r#"{"targets":["a","b","a"],"targetUIDs":["1","","1"],"preconditions":{"uid":"p"}}"#).unwrap();
    let named = |name: &str, uid: Option<&str>| Named { name: name.into(), uid: uid.map(Into::into) };
    assert_eq!(wish.targets, [named("a", Some("1")), named("b", None)]);
    assert_eq!(wish.pool_uid.as_deref(), Some("p"));
}

#[rstest]
#[case("dryRun=All", true)]
#[case("dryRun=All&dryRun=All", true)]
#[case("fieldValidation=Strict&fieldManager=a&timeout=3s", false)]
#[case("dryrun=All", false)]
fn dry_runs_by_query(#[case] query: &str, #[case] dry_run: bool) {
    assert_eq!(read(br#"{"targets":["a"]}"#, query, "n", "p").unwrap().dry_run, dry_run);
}

#[rstest]
#[case("dryRun=")]
#[case("dryRun")]
#[case("dryRun=all")]
#[case("dryRun=All&dryRun=None")]
fn a_dry_run_of_another_kind_is_refused(#[case] query: &str) {
    assert!(read(br#"{"targets":["a"]}"#, query, "n", "p").is_err());
}

/// How many bodies: more with `VMPOOL_FUZZ_CASES`.
fn cases() -> u32 {
    std::env::var("VMPOOL_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(20_000)
}

/// JSON of any shape, with our words in it.
fn json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
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
        words.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        let map = prop::collection::hash_map(words.clone().prop_map(str::to_owned), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            map.prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// A body with a few bytes changed, taken out or repeated.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let honest = br#"{"apiVersion":"subresources.vmpool.dev/v1alpha1","kind":"VirtualMachinePoolScaleDownWith","metadata":{"name":"web"},"targets":["web-0","web-1"],"targetUIDs":["u0","u1"],"preconditions":{"uid":"p"},"dryRun":["All"]}"#;
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..6).prop_map(|changes| {
        let mut body = honest.to_vec();
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
fn no_body_and_no_query_makes_it_panic_and_what_is_understood_is_sound() {
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        json().prop_map(|json| json.to_string().into_bytes()),
        mutated(),
    ];
    let understood = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(
            &(body, "(&?(dryRun|fieldValidation|%zz|\\PC{0,3})=?(All|%41ll|\\PC{0,4})?){0,3}"),
            |(body, query)| {
                match read(&body, &query, "team-a", "web") {
                    Ok(wish) => {
                        understood.set(understood.get() + 1);
                        prop_assert!(!wish.targets.is_empty() && wish.targets.len() <= MOST_TARGETS);
                        prop_assert!(wish.targets.iter().all(|target| is_dns_subdomain(&target.name)));
                    }
                    Err(Error::BadRequest(text)) => prop_assert!(!text.is_empty()),
                    Err(error) => prop_assert!(false, "{error}"),
                }
                Ok(())
            },
        )
        .unwrap();
    assert!(understood.get() > 100, "the bodies are too wild to reach anything: {}", understood.get());
}
