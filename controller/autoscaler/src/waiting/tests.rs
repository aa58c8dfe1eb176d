use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{LONGEST_SECONDS, MOST_ENTRIES, MOST_ENTRIES_OF_A_USER, WaitingClaimKey, WaitingClaims};

const NOW: i64 = 1_800_000_000;

fn key(user: &str, id: &str) -> WaitingClaimKey {
    WaitingClaimKey::new(user, id)
}

fn waiting(claims: &[(&str, &str)]) -> WaitingClaims {
    let mut waiting = WaitingClaims::default();
    for (user, id) in claims {
        waiting.record(key(user, id), NOW);
    }
    waiting
}

#[test]
fn an_entry_counts_until_its_end() {
    let text = waiting(&[("ann", "a"), ("bob", "a")]).text().unwrap();
    let count = |now| WaitingClaims::parse(&text, now).count(&BTreeSet::new());
    assert_eq!((count(NOW), count(NOW + 29), count(NOW + 30)), (2, 2, 0));
    assert_eq!(WaitingClaims::parse(&text, NOW).next_end(), Some(NOW + 30));
}

#[test]
fn a_claim_that_has_a_machine_does_not_count() {
    let waiting = waiting(&[("ann", "a"), ("ann", "b")]);
    assert_eq!(waiting.count(&BTreeSet::from([key("ann", "b"), key("bob", "a")])), 1);
}

#[test]
fn the_parts_of_a_key_cannot_be_exchanged() {
    assert_ne!(key("ann", "b"), key("annb", ""));
    assert_ne!(key("a", "nnb").user(), key("an", "nb").user());
}

#[test]
fn a_repeated_claim_has_one_entry() {
    let mut waiting = waiting(&[("ann", "a"), ("ann", "a")]);
    assert_eq!(waiting.count(&BTreeSet::new()), 1);
    assert!(waiting.remove(&key("ann", "a")) && !waiting.remove(&key("ann", "a")));
    assert_eq!(waiting.text(), None);
}

#[test]
fn an_entry_that_ends_too_late_does_not_count() {
    let late = NOW + LONGEST_SECONDS + 1;
    let text = format!(r#"{{"{}":{late},"{}":{NOW}}}"#, key("ann", "a").as_str(), key("ann", "b").as_str());
    assert_eq!(WaitingClaims::parse(&text, NOW), WaitingClaims::default());
}

#[test]
fn what_another_client_wrote_is_skipped() {
    let end = NOW + 10;
    let text = format!(
        r#"{{"x":{end},"{}":{end},"{}":"soon","":null}}"#,
        key("a", "b").as_str(),
        key("a", "c").as_str()
    );
    assert_eq!(WaitingClaims::parse(&text, NOW).count(&BTreeSet::new()), 1);
    assert_eq!(WaitingClaims::parse("[1]", NOW), WaitingClaims::default());
}

#[test]
fn one_user_cannot_fill_the_record() {
    let mut waiting = WaitingClaims::default();
    for id in 0..MOST_ENTRIES_OF_A_USER {
        assert!(waiting.record(key("ann", &id.to_string()), NOW));
    }
    assert!(!waiting.record(key("ann", "more"), NOW));
    assert!(waiting.record(key("ann", "0"), NOW), "a known entry is renewed");
    assert!(waiting.record(key("bob", "0"), NOW));
}

#[test]
fn the_record_has_a_limit() {
    let mut waiting = WaitingClaims::default();
    for user in 0..MOST_ENTRIES {
        assert!(waiting.record(key(&user.to_string(), "a"), NOW));
    }
    assert!(!waiting.record(key("another", "a"), NOW));
    let text = waiting.text().unwrap();
    assert!(text.len() < 64 * MOST_ENTRIES, "{} bytes", text.len());
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(claims in prop::collection::vec(("[a-z]{1,5}", ".{0,9}"), 0..40)) {
        let mut waiting = WaitingClaims::default();
        for (user, id) in &claims {
            waiting.record(key(user, id), NOW);
        }
        let text = waiting.text().unwrap_or_default();
        prop_assert_eq!(WaitingClaims::parse(&text, NOW), waiting);
    }

    #[test]
    fn no_annotation_panics(text in ".{0,80}") {
        let _ = WaitingClaims::parse(&text, NOW);
    }
}
