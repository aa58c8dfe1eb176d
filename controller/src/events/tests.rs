use rstest::rstest;
use tokio_util::sync::CancellationToken;
use vmpool_engine::limits;
use vmpool_platforms::DefaultWording;
use vmpool_runtime::env::Task;
use vmpool_runtime::testing::{ManualClock, test_env, unlimited_fence};

use super::*;
use crate::metrics::WriteMetrics;
use crate::settings::ControllerSettings;
use crate::testing::{Fate, NAMESPACE, RecordingApiServer, Verb};
use crate::write::WriteLimits;

fn event(reason: EventReason, number: usize, note: &str) -> PoolEvent {
    PoolEvent { reason, name: format!("web-{number}"), note: note.to_owned() }
}

fn created(count: usize) -> Vec<PoolEvent> {
    (0..count)
        .map(|number| event(EventReason::SuccessfulCreate, number, &format!("created machine web-{number}")))
        .collect()
}

#[rstest]
#[case::none(0, 0)]
#[case::few(3, 3)]
#[case::as_many_as_stand_alone(10, 10)]
#[case::one_more(11, 11)]
#[case::a_hundred(100, 11)]
fn up_to_ten_events_are_single_and_the_rest_is_a_summary(#[case] happened: usize, #[case] told: usize) {
    let notes = condense_events(created(happened));
    assert_eq!(notes.len(), told);
    for (number, (_, note)) in notes.iter().take(INDIVIDUAL).enumerate() {
        assert_eq!(*note, format!("created machine web-{number}"));
    }
}

#[test]
fn the_rest_lists_the_names() {
    let notes = condense_events(created(13));
    assert_eq!(
        notes[10],
        (
            EventReason::SuccessfulCreate,
            "and 3 more, the first: created machine web-10; all: web-10, web-11, web-12".to_owned()
        )
    );
}

#[test]
fn the_rest_contains_a_cause_and_the_names_although_the_cause_is_long() {
    let cause = format!("creating machine: {}", "é".repeat(400));
    let failed = (0..13).map(|n| event(EventReason::FailedCreate, n, &format!("{n} {cause}"))).collect();
    let (_, note) = condense_events(failed).remove(INDIVIDUAL);
    assert!(note.starts_with("and 3 more, the first: 10 creating machine: é"), "{note}");
    assert!(note.ends_with("; all: web-10, web-11, web-12"), "{note}");
}

#[test]
fn each_reason_has_ten_single_events() {
    let mut events = created(12);
    events.extend(
        (0..12).map(|n| event(EventReason::SuccessfulDelete, n, &format!("deleted machine web-{n}"))),
    );
    let notes = condense_events(events);
    let of = |reason| notes.iter().filter(|(other, _)| *other == reason).count();
    assert_eq!((of(EventReason::SuccessfulCreate), of(EventReason::SuccessfulDelete)), (11, 11));
}

#[test]
fn equal_notes_are_one_note() {
    let same = (0..50).map(|number| event(EventReason::FailedCreate, number, "exceeded quota")).collect();
    assert_eq!(condense_events(same), [(EventReason::FailedCreate, "exceeded quota".to_owned())]);
}

#[rstest]
#[case::ascii("x")]
#[case::two_bytes("é")]
#[case::three_bytes("€")]
#[case::four_bytes("😀")]
fn a_long_note_is_cut_between_two_characters(#[case] character: &str) {
    for offset in 0..4 {
        let note = format!("{}{}", "-".repeat(offset), character.repeat(2000));
        let (_, cut) = condense_events(vec![event(EventReason::FailedCreate, 0, &note)]).remove(0);
        let kept = cut.strip_suffix(" ...").unwrap();
        assert!(note.starts_with(kept));
        assert!((limits::MESSAGE - 8..=limits::MESSAGE).contains(&cut.len()), "{}", cut.len());
    }
}

#[test]
fn a_note_of_the_longest_length_is_kept() {
    let note = "x".repeat(limits::MESSAGE);
    assert_eq!(condense_events(vec![event(EventReason::FailedCreate, 0, &note)])[0].1, note);
}

struct World {
    clock: ManualClock,
    server: RecordingApiServer,
    events: Events,
    _sender: Task,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let env = test_env(&clock, 3);
        let server = RecordingApiServer::new(&env);
        let writer = Writer::new(
            server.client(),
            env.clone(),
            unlimited_fence(),
            WriteLimits { in_flight: 1, ..(&ControllerSettings::default()).into() },
            CancellationToken::new(),
            WriteMetrics::detached(),
        );
        let (events, send) = Events::new(writer, env.clone(), "vmpool-controller-7d9".to_owned());
        Self { clock, server, events, _sender: env.spawn("events", send) }
    }

    async fn tell(&self, reason: EventReason, note: &str) {
        self.tell_of("web", reason, note).await;
    }

    async fn tell_of(&self, pool: &str, reason: EventReason, note: &str) {
        let subject = EventSubject {
            api_version: "virtualization.deckhouse.io/v1alpha2".to_owned(),
            kind: "VirtualMachinePool".to_owned(),
            namespace: NAMESPACE.into(),
            id: ObjectId::new(pool, &format!("uid of {pool}")),
        };
        self.events.publish::<DefaultWording>(&subject, vec![event(reason, 1, note)]);
        self.clock.settle().await;
    }
}

#[tokio::test]
async fn an_event_has_the_fields_that_kubectl_describe_shows() {
    let world = World::new();
    world.tell(EventReason::FailedCreate, "creating machine web-1: exceeded quota").await;
    let event = world.server.all("events").remove(0);
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("web."), "{event}");
    assert_eq!(event["message"], "creating machine web-1: exceeded quota");
    assert_eq!((&event["reason"], &event["action"]), (&json!("FailedCreate"), &json!("Create")));
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["eventTime"], "2030-01-01T00:00:00.000000Z");
    assert_eq!(event["reportingComponent"], "vmpool.dev/controller");
    assert_eq!(event["source"], json!({ "component": "vmpool.dev/controller" }));
    assert_eq!((&event["count"], &event["lastTimestamp"]), (&json!(1), &json!("2030-01-01T00:00:00Z")));
    assert_eq!(event["reportingInstance"], "vmpool-controller-7d9");
    assert_eq!(
        event["involvedObject"],
        json!({
            "apiVersion": "virtualization.deckhouse.io/v1alpha2",
            "kind": "VirtualMachinePool",
            "namespace": NAMESPACE,
            "name": "web",
            "uid": "uid of web",
        })
    );
}

#[rstest]
#[case(EventReason::SuccessfulCreate, "Normal")]
#[case(EventReason::SuccessfulDelete, "Normal")]
#[case(EventReason::DiskCreated, "Normal")]
#[case(EventReason::FailedCreate, "Warning")]
#[case(EventReason::FailedDelete, "Warning")]
#[case(EventReason::FailedDisk, "Warning")]
#[case(EventReason::FailedRepair, "Warning")]
#[case(EventReason::ReservationExpired, "Warning")]
#[tokio::test]
async fn failures_are_warnings(#[case] reason: EventReason, #[case] kind: &str) {
    let world = World::new();
    world.tell(reason, "note").await;
    let event = world.server.all("events").remove(0);
    assert_eq!((&event["type"], &event["reason"]), (&json!(kind), &json!(reason.as_str())));
}

#[tokio::test]
async fn equal_events_become_a_series() {
    let world = World::new();
    for _ in 0..3 {
        world.tell(EventReason::FailedCreate, "exceeded quota").await;
        world.clock.advance(Duration::from_mins(1)).await;
    }
    let events = world.server.all("events");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["series"], json!({ "count": 3, "lastObservedTime": "2030-01-01T00:02:00.000000Z" }));
    assert_eq!(
        (&events[0]["count"], &events[0]["lastTimestamp"]),
        (&json!(3), &json!("2030-01-01T00:02:00Z"))
    );
    world.tell(EventReason::FailedCreate, "no permission").await;
    assert_eq!(world.server.all("events").len(), 2);
}

#[tokio::test]
async fn after_a_long_pause_a_new_series_starts() {
    let world = World::new();
    world.tell(EventReason::FailedCreate, "exceeded quota").await;
    world.clock.advance(SERIES).await;
    world.tell(EventReason::FailedCreate, "exceeded quota").await;
    assert_eq!(world.server.all("events").len(), 2);
}

#[tokio::test]
async fn a_series_with_an_expired_event_starts_again() {
    let world = World::new();
    world.tell(EventReason::FailedCreate, "exceeded quota").await;
    let name = world.server.all("events")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    world.server.delete("events", &name);
    world.tell(EventReason::FailedCreate, "exceeded quota").await;
    assert_eq!(world.server.all("events").len(), 1);
    assert_eq!(world.server.all("events")[0]["series"], Value::Null);
}

#[tokio::test]
async fn an_event_that_cannot_be_stored_delays_no_write() {
    let world = World::new();
    let mut first = true;
    world.server.intercept(move |_| if std::mem::take(&mut first) { Fate::Unreachable } else { Fate::Serve });
    world.tell(EventReason::FailedCreate, "one").await;
    world.tell(EventReason::FailedCreate, "two").await;
    let events = world.server.all("events");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["message"], "two");
    let log = world.server.take_log();
    assert_eq!(log.iter().filter(|call| call.is(Verb::Create, "events")).count(), 2, "nothing is sent twice");
}

#[tokio::test]
async fn events_of_successes_are_no_series() {
    let world = World::new();
    for _ in 0..2 {
        world.tell(EventReason::SuccessfulCreate, "created machine web-1").await;
    }
    assert_eq!(world.server.all("events").len(), 2);
}

#[tokio::test]
async fn the_least_recent_series_is_evicted() {
    let world = World::new();
    for number in 0..=MOST_SERIES {
        world.tell_of(&format!("web-{number}"), EventReason::FailedCreate, "failure").await;
        world.clock.advance(Duration::from_millis(1)).await;
    }
    let events = || world.server.all("events").len();
    assert_eq!(events(), MOST_SERIES + 1);
    world.tell_of("web-1", EventReason::FailedCreate, "failure").await;
    assert_eq!(events(), MOST_SERIES + 1, "still a series");
    world.tell_of("web-0", EventReason::FailedCreate, "failure").await;
    assert_eq!(events(), MOST_SERIES + 2, "forgotten");
}

#[tokio::test]
async fn a_pool_gets_ten_warnings_per_reason_in_ten_minutes() {
    let world = World::new();
    let count = || world.server.all("events").len();
    for number in 0..30 {
        world
            .tell(EventReason::FailedCreate, &format!("creating machine web-{number}: exceeded quota"))
            .await;
        world.clock.advance(Duration::from_secs(10)).await;
    }
    assert_eq!(count(), WARNINGS);
    // A warning that repeats an earlier one is no new event.
    world.tell(EventReason::FailedCreate, "creating machine web-0: exceeded quota").await;
    assert_eq!(count(), WARNINGS);
    assert_eq!(world.server.all("events").iter().filter(|event| event["series"]["count"] == 2).count(), 1);
    // Another reason, another pool, and normal events are not limited by these.
    world.tell(EventReason::FailedDelete, "deleting machine web-1: protected").await;
    world.tell_of("db", EventReason::FailedCreate, "creating machine db-1: exceeded quota").await;
    for number in 0..30 {
        world.tell(EventReason::SuccessfulDelete, &format!("removed machine web-{number}")).await;
    }
    assert_eq!(count(), WARNINGS + 32);
    world.clock.advance(SERIES.saturating_sub(Duration::from_secs(299))).await;
    world.tell(EventReason::FailedCreate, "creating machine web-30: exceeded quota").await;
    world.tell(EventReason::FailedCreate, "creating machine web-31: exceeded quota").await;
    assert_eq!(count(), WARNINGS + 33, "the first one was ten minutes ago, and the second one was not");
}
