use std::collections::BTreeMap;
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use crate::ids::Uid;

fn weekly() -> RecyclePolicy {
    RecyclePolicy { max_lifetime: Some(Duration::from_hours(168)), jitter: 10, ..RecyclePolicy::default() }
}

#[rstest]
#[case::a_lifetime(json!({ "maxLifetime": "168h" }), Some(weekly()))]
#[case::all_fields(
    json!({ "maxLifetime": "10m", "maxClaims": 1, "jitter": 100 }),
    Some(RecyclePolicy { max_lifetime: Some(SHORTEST_LIFETIME), max_claims: Some(1), jitter: 100 }),
)]
#[case::nulls(json!({ "maxLifetime": null, "jitter": null }), Some(RecyclePolicy { jitter: 10, ..RecyclePolicy::default() }))]
#[case::too_short(json!({ "maxLifetime": "9m59s" }), None)]
#[case::a_number(json!({ "maxLifetime": 600 }), None)]
#[case::no_claim(json!({ "maxClaims": 0 }), None)]
#[case::a_fraction(json!({ "maxClaims": 1.5 }), None)]
#[case::too_much_jitter(json!({ "jitter": 101 }), None)]
#[case::an_unknown_field(json!({ "maxLifetme": "168h" }), None)]
#[case::no_object(json!("168h"), None)]
fn the_setting_is_an_object(#[case] value: Value, #[case] expected: Option<RecyclePolicy>) {
    assert_eq!(parse_recycle(&value).ok(), expected);
}

#[test]
fn an_unreadable_setting_replaces_no_machine_and_the_field_wins() {
    let mut messages = Vec::new();
    let annotations = BTreeMap::from([(RECYCLE.to_owned(), json!({ "maxLifetime": "168h" }).to_string())]);
    assert_eq!(read_recycle(&Value::Null, Some(&annotations), &mut messages), weekly());
    let off = RecyclePolicy::default();
    assert_eq!(read_recycle(&json!({ "maxLifetime": "1m" }), Some(&annotations), &mut messages), off);
    let broken = BTreeMap::from([(RECYCLE.to_owned(), "{".to_owned())]);
    assert_eq!(read_recycle(&Value::Null, Some(&broken), &mut messages), off);
    assert_eq!(read_recycle(&Value::Null, None, &mut messages), off);
    assert_eq!(messages.len(), 2);
    assert!(
        messages[0].starts_with("recycle: ") && messages[1].starts_with("annotation vmpool.dev/recycle: ")
    );
}

#[test]
fn the_jitter_shortens_the_lifetime_by_at_most_its_share() {
    let lifetimes: Vec<Duration> = (0..1000)
        .map(|number| weekly().lifetime_of(&Uid::from(format!("uid-{number}").as_str())).unwrap())
        .collect();
    let (longest, shortest) = (Duration::from_hours(168), Duration::from_hours(168) / 10 * 9);
    let quarter = longest.saturating_sub(shortest) / 4;
    assert!(lifetimes.iter().all(|lifetime| (shortest..=longest).contains(lifetime)));
    let spread = |from: u32, to: u32| {
        let within = shortest + quarter * from..shortest + quarter * to;
        lifetimes.iter().filter(|lifetime| within.contains(lifetime)).count()
    };
    assert!((0..4).all(|number| spread(number, number + 1) > 150), "they are spread");
    assert_eq!(lifetimes[0], weekly().lifetime_of(&Uid::from("uid-0")).unwrap(), "and always the same");
}

#[rstest]
#[case::without_jitter(0)]
#[case::with_jitter(100)]
fn no_lifetime_is_shorter_than_the_shortest(#[case] jitter: u8) {
    let policy = RecyclePolicy { max_lifetime: Some(SHORTEST_LIFETIME), jitter, ..RecyclePolicy::default() };
    assert_eq!(policy.lifetime_of(&Uid::from("a")), Some(SHORTEST_LIFETIME));
}

#[test]
fn facts_are_read_from_the_annotations() {
    let read = |entries: &[(&str, &str)]| {
        let annotations: BTreeMap<String, String> =
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        RecycleFacts::read(Some(&annotations))
    };
    assert_eq!(read(&[("vmpool.dev/claim", "{}")]), None);
    let facts = read(&[(REQUEST, "2026-01-01T00:00:00Z"), (CLAIMS, "3")]).unwrap();
    assert_eq!((facts.requested.unwrap().as_second(), facts.claims), (1_767_225_600, 3));
    assert_eq!(read(&[(REQUEST, "soon"), (CLAIMS, "-1")]), None, "what cannot be read requests nothing");
    assert_eq!((format_claim_count(0), format_claim_count(2)), (None, Some("2".to_owned())));
}
