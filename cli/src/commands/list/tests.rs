use rstest::rstest;
use serde_json::json;
use vmpool_platforms::Dvp;

use super::*;

fn entry(namespace: &str, name: &str) -> PoolListEntry {
    PoolListEntry {
        namespace: namespace.into(),
        name: name.into(),
        platform: "DVP",
        resource: format!("virtualmachinepool.example.com/{name}"),
        desired: 3,
        current: Some(3),
        ready: Some(2),
        updated: Some(3),
        protected: Some(1),
        phase: "Scaling".into(),
        observed: true,
        generation: 4,
        observed_generation: Some(4),
        message: "2 of 3 machines are ready".into(),
        created: Some(Timestamp::UNIX_EPOCH),
        ..PoolListEntry::default()
    }
}

fn listing() -> PoolListing {
    let unobserved = PoolListEntry {
        observed: false,
        observed_generation: Some(3),
        phase: "Ready".into(),
        protected: None,
        updated: None,
        ..entry("team-b", "runners")
    };
    PoolListing { pools: vec![entry("team-a", "web"), unobserved], ..PoolListing::default() }
}

fn plain_table(scope: ListScope, wide: bool) -> String {
    let now = Timestamp::from_second(60).unwrap();
    anstream::adapter::strip_str(&render_pool_table(&listing(), scope, wide, now)).to_string()
}

#[test]
fn a_list_of_one_namespace_does_not_repeat_it() {
    assert_eq!(
        plain_table(ListScope::Namespace, false),
        "NAME     PLATFORM  DESIRED  CURRENT  READY  UPDATED  PROTECTED  STATUS                   AGE\n\
         web      DVP       3        3        2      3        1          Scaling                  60s\n\
         runners  DVP       3        3        2      ?        ?          NotObserved (was Ready)  60s\n"
    );
}

#[test]
fn a_list_of_all_namespaces_names_them() {
    let text = plain_table(ListScope::Cluster, false);
    let mut lines = text.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("NAMESPACE  NAME ")), "{text}");
    assert!(lines.next().is_some_and(|line| line.starts_with("team-a     web ")), "{text}");
}

#[test]
fn a_wide_list_has_generations_and_messages() {
    let text = plain_table(ListScope::Namespace, true);
    assert!(
        text.lines().next().is_some_and(|line| line.ends_with("AGE  DRAINING  OBSERVED  MESSAGE")),
        "{text}"
    );
    assert!(text.contains(" 4/4       2 of 3 machines are ready\n"), "{text}");
    assert!(text.contains(" 3/4 "), "{text}");
}

#[test]
fn no_pools_have_no_heading() {
    assert_eq!(
        render_pool_table(&PoolListing::default(), ListScope::Cluster, true, Timestamp::UNIX_EPOCH),
        ""
    );
}

#[rstest]
#[case::observed(true, false, "Ready", "Ready")]
#[case::earlier_generation(false, false, "Ready", "NotObserved (was Ready)")]
#[case::without_a_status(false, false, "", "NotObserved")]
#[case::deleted(false, true, "Ready", "Terminating")]
fn the_status_of_an_earlier_generation_is_no_state(
    #[case] observed: bool,
    #[case] deleting: bool,
    #[case] phase: &str,
    #[case] expected: &str,
) {
    let pool = PoolListEntry { observed, deleting, phase: phase.into(), ..PoolListEntry::default() };
    assert_eq!(pool.status(), expected);
}

#[test]
fn an_entry_has_the_counters_and_the_phase_of_the_status() {
    let stored = json!({
        "metadata": {
            "name": "web", "namespace": "team", "uid": "u", "generation": 2,
            "creationTimestamp": "1970-01-01T00:00:00Z",
        },
        "spec": { "replicas": 3, "scaleDownPolicy": "NewestFirst", "virtualMachineTemplate": { "spec": {} } },
        "status": {
            "replicas": 3, "readyReplicas": 2, "observedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "Scaling", "message": "2 of 3",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }],
        },
    });
    let entry = pool_list_entry::<Dvp>(&stored, Some(&[]), Timestamp::UNIX_EPOCH).unwrap();
    let expected = PoolListEntry {
        namespace: "team".into(),
        name: "web".into(),
        platform: Dvp::TITLE,
        resource: "virtualmachinepool.virtualization.deckhouse.io/web".into(),
        desired: 3,
        current: Some(3),
        ready: Some(2),
        updated: None,
        protected: Some(0),
        draining: Some(0),
        phase: "Scaling".into(),
        observed: false,
        unobserved_since: None,
        generation: 2,
        observed_generation: Some(1),
        deleting: false,
        message: "2 of 3".into(),
        created: Some(Timestamp::UNIX_EPOCH),
    };
    assert_eq!(entry, expected);
}

#[test]
fn pools_that_are_not_observed_are_named_with_the_silence_of_the_leader() {
    let now = Timestamp::from_second(420).unwrap();
    let mut listing = listing();
    assert_eq!(describe_unobserved_pools(&listing, now).unwrap(), "pool runners");
    listing.pools[1].unobserved_since = Timestamp::from_second(120).ok();
    listing.leader = Some(LeaderState::Silent { holder: "a".into(), renewed: Timestamp::UNIX_EPOCH });
    let since = "since 1970-01-01T00:02:00Z (5m), the leader a has been silent for 7m";
    assert_eq!(describe_unobserved_pools(&listing, now).unwrap(), format!("pool runners, {since}"));
    listing.pools.push(PoolListEntry { observed: false, ..entry("team-c", "jobs") });
    let expected = format!("2 pools, for example runners, {since}");
    assert_eq!(describe_unobserved_pools(&listing, now).unwrap(), expected);
    listing.pools.truncate(1);
    assert_eq!(describe_unobserved_pools(&listing, now), None);
}
