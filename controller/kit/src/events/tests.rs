use tokio_util::sync::CancellationToken;
use vmpool_runtime::env::Task;
use vmpool_runtime::testing::{ManualClock, test_env, unlimited_fence};

use super::*;
use crate::testing::{Fate, NAMESPACE, RecordingApiServer, Uncounted, Verb};
use crate::write::WriteLimits;

/// A reason of an event, and whether the event is a warning.
#[derive(Clone, Copy)]
struct TestReason {
    reason: &'static str,
    is_warning: bool,
}

const FAILED_CREATE: TestReason = TestReason { reason: "FailedCreate", is_warning: true };
const FAILED_DELETE: TestReason = TestReason { reason: "FailedDelete", is_warning: true };
const SUCCESSFUL_CREATE: TestReason = TestReason { reason: "SuccessfulCreate", is_warning: false };
const SUCCESSFUL_DELETE: TestReason = TestReason { reason: "SuccessfulDelete", is_warning: false };

struct World {
    clock: ManualClock,
    server: RecordingApiServer,
    events: EventSender,
    _sender: Task,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let env = test_env(&clock, 3);
        let server = RecordingApiServer::new(&env);
        let writer = Writer::new(
            "vmpool-controller",
            server.client(),
            env.clone(),
            unlimited_fence(),
            WriteLimits {
                in_flight: 1,
                deadline: Duration::from_secs(8),
                slow_deadline: Duration::from_mins(1),
            },
            CancellationToken::new(),
            Arc::new(Uncounted),
        );
        let (events, send) = EventSender::new(writer, env.clone(), "vmpool-controller-7d9".to_owned());
        Self { clock, server, events, _sender: env.spawn("events", send) }
    }

    async fn tell(&self, reason: TestReason, note: &str) {
        self.tell_of("web", reason, note).await;
    }

    async fn tell_of(&self, pool: &str, reason: TestReason, note: &str) {
        let subject = EventSubject {
            api_version: "virtualization.deckhouse.io/v1alpha2".to_owned(),
            kind: "VirtualMachinePool".to_owned(),
            namespace: NAMESPACE.into(),
            id: ObjectId::new(pool, &format!("uid of {pool}")),
        };
        let TestReason { reason, is_warning } = reason;
        let kind = EventKind {
            source: "vmpool.dev/controller",
            reason: reason.into(),
            action: "Create",
            is_warning,
        };
        self.events.publish(&subject, kind, note.to_owned());
        self.clock.settle().await;
    }
}

#[tokio::test]
async fn an_event_has_the_fields_that_kubectl_describe_shows() {
    let world = World::new();
    world.tell(FAILED_CREATE, "creating machine web-1: exceeded quota").await;
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

#[tokio::test]
async fn equal_events_become_a_series() {
    let world = World::new();
    for _ in 0..3 {
        world.tell(FAILED_CREATE, "exceeded quota").await;
        world.clock.advance(Duration::from_mins(1)).await;
    }
    let events = world.server.all("events");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["series"], json!({ "count": 3, "lastObservedTime": "2030-01-01T00:02:00.000000Z" }));
    assert_eq!(
        (&events[0]["count"], &events[0]["lastTimestamp"]),
        (&json!(3), &json!("2030-01-01T00:02:00Z"))
    );
    world.tell(FAILED_CREATE, "no permission").await;
    assert_eq!(world.server.all("events").len(), 2);
}

#[tokio::test]
async fn after_a_long_pause_a_new_series_starts() {
    let world = World::new();
    world.tell(FAILED_CREATE, "exceeded quota").await;
    world.clock.advance(SERIES).await;
    world.tell(FAILED_CREATE, "exceeded quota").await;
    assert_eq!(world.server.all("events").len(), 2);
}

#[tokio::test]
async fn a_series_with_an_expired_event_starts_again() {
    let world = World::new();
    world.tell(FAILED_CREATE, "exceeded quota").await;
    let name = world.server.all("events")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    world.server.delete("events", &name);
    world.tell(FAILED_CREATE, "exceeded quota").await;
    assert_eq!(world.server.all("events").len(), 1);
    assert_eq!(world.server.all("events")[0]["series"], Value::Null);
}

#[tokio::test]
async fn an_event_that_cannot_be_stored_delays_no_write() {
    let world = World::new();
    let mut first = true;
    world.server.intercept(move |_| if std::mem::take(&mut first) { Fate::Unreachable } else { Fate::Serve });
    world.tell(FAILED_CREATE, "one").await;
    world.tell(FAILED_CREATE, "two").await;
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
        world.tell(SUCCESSFUL_CREATE, "created machine web-1").await;
    }
    assert_eq!(world.server.all("events").len(), 2);
}

#[tokio::test]
async fn the_least_recent_series_is_evicted() {
    let world = World::new();
    for number in 0..=MOST_SERIES {
        world.tell_of(&format!("web-{number}"), FAILED_CREATE, "failure").await;
        world.clock.advance(Duration::from_millis(1)).await;
    }
    let events = || world.server.all("events").len();
    assert_eq!(events(), MOST_SERIES + 1);
    world.tell_of("web-1", FAILED_CREATE, "failure").await;
    assert_eq!(events(), MOST_SERIES + 1, "still a series");
    world.tell_of("web-0", FAILED_CREATE, "failure").await;
    assert_eq!(events(), MOST_SERIES + 2, "forgotten");
}

#[tokio::test]
async fn an_object_gets_ten_warnings_per_reason_in_ten_minutes() {
    let world = World::new();
    let count = || world.server.all("events").len();
    for number in 0..30 {
        world.tell(FAILED_CREATE, &format!("creating machine web-{number}: exceeded quota")).await;
        world.clock.advance(Duration::from_secs(10)).await;
    }
    assert_eq!(count(), WARNINGS);
    // A warning that repeats an earlier one is no new event.
    world.tell(FAILED_CREATE, "creating machine web-0: exceeded quota").await;
    assert_eq!(count(), WARNINGS);
    assert_eq!(world.server.all("events").iter().filter(|event| event["series"]["count"] == 2).count(), 1);
    // Another reason, another object, and normal events are not limited by these.
    world.tell(FAILED_DELETE, "deleting machine web-1: protected").await;
    world.tell_of("db", FAILED_CREATE, "creating machine db-1: exceeded quota").await;
    for number in 0..30 {
        world.tell(SUCCESSFUL_DELETE, &format!("removed machine web-{number}")).await;
    }
    assert_eq!(count(), WARNINGS + 32);
    world.clock.advance(SERIES.saturating_sub(Duration::from_secs(299))).await;
    world.tell(FAILED_CREATE, "creating machine web-30: exceeded quota").await;
    world.tell(FAILED_CREATE, "creating machine web-31: exceeded quota").await;
    assert_eq!(count(), WARNINGS + 33, "the first one was ten minutes ago, and the second one was not");
}
