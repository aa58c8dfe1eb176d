use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use rstest::rstest;
use serde_json::json;
use vmpool_runtime::testing::{ManualClock, end_fence, fence_for, test_env, unlimited_fence};

use super::*;
use crate::testing::{
    Call, Conduct, Fate, NAMESPACE, RecordingApiServer, Refusal, TestWrite, Uncounted, Verb,
};

const DEADLINE: Duration = Duration::from_secs(8);
const MACHINES: &str = "/apis/virtualization.deckhouse.io/v1alpha2/namespaces/team-a/virtualmachines";

/// A request that takes as long as two webhooks of ten seconds in a row.
const SLOW_REQUEST: Duration = Duration::from_secs(20);
const SLOW_DEADLINE: Duration = Duration::from_mins(1);

struct World {
    clock: ManualClock,
    env: Env,
    server: RecordingApiServer,
    fence: Fence,
    stop: CancellationToken,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let env = test_env(&clock, 0);
        Self {
            server: RecordingApiServer::new(&env),
            fence: unlimited_fence(),
            stop: CancellationToken::new(),
            env,
            clock,
        }
    }

    fn writer(&self, in_flight: usize) -> Writer<TestWrite> {
        Writer::new(
            "vmpool-controller",
            self.server.client(),
            self.env.clone(),
            self.fence.clone(),
            WriteLimits { in_flight, deadline: DEADLINE, slow_deadline: SLOW_DEADLINE },
            self.stop.clone(),
            Arc::new(Uncounted),
        )
    }

    async fn create(&self) -> Result<Value, WriteError> {
        self.writer(1).create(TestWrite::Object, MACHINES.to_owned(), machine("web-1")).await
    }

    /// The error of a create that gets this response.
    async fn answered(&self, code: u16, reason: &str) -> WriteError {
        let answer = Refusal::new(code, reason, "words of the server");
        self.server.intercept(move |_| Fate::Refuse(answer.clone()));
        self.create().await.unwrap_err()
    }
}

fn machine(name: &str) -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualMachine",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {},
    })
}

#[tokio::test]
async fn a_create_brings_the_object_back() {
    let world = World::new();
    let created = world.create().await.unwrap();
    assert!(created["metadata"]["uid"].is_string());
    let log = world.server.take_log();
    assert_eq!(log.len(), 1);
    assert!(log[0].is(Verb::Create, "virtualmachines"));
    assert_eq!(log[0].query, [("fieldManager".to_owned(), "vmpool-controller".to_owned())]);
}

#[rstest]
#[case::exists(409, "AlreadyExists", (true, false, false))]
#[case::a_quota_that_changed(409, "Conflict", (false, true, false))]
#[case::gone(404, "NotFound", (false, false, true))]
#[case::admission(403, "Forbidden", (false, false, false))]
#[case::schema(422, "Invalid", (false, false, false))]
#[tokio::test]
async fn a_rejection_has_its_reason(
    #[case] code: u16,
    #[case] reason: &str,
    #[case] expected: (bool, bool, bool),
) {
    let world = World::new();
    let error = world.answered(code, reason).await;
    assert!(matches!(error, WriteError::Refused { .. }), "{error:?}");
    assert_eq!((error.is_already_exists(), error.is_conflict(), error.is_gone()), expected);
    assert_eq!(error.to_string(), "words of the server");
    assert_eq!(error.retry_after(), None);
    assert_eq!(world.server.take_log().len(), 1, "the writer does not retry");
}

#[tokio::test]
async fn a_busy_server_requests_a_delay() {
    let world = World::new();
    let busy = Refusal::new(429, "TooManyRequests", "too many").after(7);
    world.server.intercept(move |_| Fate::Refuse(busy.clone()));
    let error = world.create().await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(world.server.take_log().len(), 1, "the writer does not retry");
}

#[rstest]
#[case::internal(500)]
#[case::gateway(502)]
#[case::unavailable(503)]
#[case::gateway_timeout(504)]
#[tokio::test]
async fn a_server_error_makes_a_write_unconfirmed(#[case] code: u16) {
    let world = World::new();
    let error = world.answered(code, "InternalError").await;
    assert!(matches!(error, WriteError::Unconfirmed(_)), "{error:?}");
    assert!(error.to_string().contains("words of the server"), "{error}");
    assert_eq!(world.server.take_log().len(), 1, "the writer does not retry");
}

#[tokio::test]
async fn a_verb_that_the_server_does_not_have_has_no_effect() {
    let error = World::new().answered(501, "NotImplemented").await;
    assert!(matches!(error, WriteError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn a_broken_connection_makes_a_write_unconfirmed() {
    for committed in [true, false] {
        let world = World::new();
        world.server.intercept(move |_| if committed { Fate::ResponseLost } else { Fate::Unreachable });
        let error = world.create().await.unwrap_err();
        assert!(matches!(error, WriteError::Unconfirmed(_)), "{error:?}");
        assert_eq!(world.server.get("virtualmachines", "web-1").is_some(), committed);
        assert_eq!(world.server.take_log().len(), 1, "the writer does not retry");
    }
}

#[tokio::test]
async fn an_unreadable_response_makes_a_write_unconfirmed() {
    let world = World::new();
    world.server.intercept(|_| Fate::Respond(201, json!("what a proxy says")));
    let path = MACHINES.to_owned();
    let result: Result<std::collections::BTreeMap<String, Value>, _> =
        world.writer(1).create(TestWrite::Object, path, machine("web-1")).await;
    assert!(matches!(result, Err(WriteError::Unconfirmed(_))), "{result:?}");
}

#[tokio::test]
async fn a_rejection_that_is_no_status_object_is_still_a_rejection() {
    let world = World::new();
    world.server.intercept(|_| Fate::Respond(403, json!("who are you?")));
    let error = world.create().await.unwrap_err();
    assert!(matches!(&error, WriteError::Refused { status, .. } if status.code == 403), "{error:?}");
    assert!(error.to_string().contains("who are you?"), "{error}");
}

#[tokio::test]
async fn after_the_deadline_a_write_is_unconfirmed() {
    let world = World::new();
    world.server.intercept(|_| Conduct::slow(DEADLINE + Duration::from_millis(1)));
    let creating = tokio::task::LocalSet::new();
    let mut creating = creating.run_until(world.create()).boxed_local();
    assert!(futures::poll!(&mut creating).is_pending());
    let advancing = world.clock.advance(DEADLINE);
    let (result, ()) = futures::join!(creating, advancing);
    let error = result.unwrap_err();
    assert!(matches!(error, WriteError::Unconfirmed(_)), "{error:?}");
    assert!(world.server.get("virtualmachines", "web-1").is_some(), "the write was nevertheless executed");
}

/// A webhook that does not answer delays each request. The API server gives up a request if its client does.
fn slow_admission() -> Conduct {
    Conduct { before: SLOW_REQUEST, outcome: Fate::ServeIfAwaited, after: Duration::ZERO }
}

impl World {
    /// The result of a create while the time advances this far in half seconds.
    async fn within(
        &self,
        writer: &Writer<TestWrite>,
        name: &str,
        time: Duration,
    ) -> Option<Result<Value, WriteError>> {
        let (writer, machine) = (writer.clone(), machine(name));
        let result = Arc::new(parking_lot::Mutex::new(None));
        let slot = result.clone();
        let task = self.env.spawn("create", async move {
            let created = writer.create(TestWrite::Object, MACHINES.to_owned(), machine).await;
            *slot.lock() = Some(created);
        });
        let mut passed = Duration::ZERO;
        while passed < time && !task.is_finished() {
            self.clock.advance(Duration::from_millis(500)).await;
            passed += Duration::from_millis(500);
        }
        result.lock().take()
    }
}

#[tokio::test]
async fn a_write_without_an_answer_names_what_is_slow() {
    let world = World::new();
    world.server.intercept(|_| slow_admission());
    let error = world.within(&world.writer(1), "web-1", SLOW_REQUEST).await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unconfirmed: no answer within 8s: an admission webhook or the API server is slow"
    );
}

#[tokio::test]
async fn the_next_write_to_a_slow_collection_outlasts_slow_webhooks() {
    let world = World::new();
    world.server.intercept(|_| slow_admission());
    let writer = world.writer(4);
    assert!(world.within(&writer, "web-1", SLOW_REQUEST).await.unwrap().is_err());
    world.within(&writer, "web-1", SLOW_REQUEST * 2).await.unwrap().unwrap();
    world.within(&writer, "web-2", SLOW_REQUEST * 2).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_slow_write_ends_with_the_lease() {
    let mut world = World::new();
    world.fence = fence_for(&world.env, Duration::from_secs(20));
    world.server.intercept(|_| slow_admission());
    let writer = world.writer(4);
    assert!(world.within(&writer, "web-1", SLOW_REQUEST).await.unwrap().is_err());
    // The request begins after 8 s, and ends with the lease after 20 s.
    let error = world.within(&writer, "web-1", Duration::from_secs(12)).await.unwrap().unwrap_err();
    assert!(matches!(&error, WriteError::Unconfirmed(why) if why.contains("leading")), "{error:?}");
    assert!(matches!(world.within(&writer, "web-1", SLOW_REQUEST).await, Some(Err(WriteError::Fenced))));
    world.clock.advance(SLOW_REQUEST).await;
    assert!(world.server.get("virtualmachines", "web-1").is_none(), "the API server has given up, too");
}

#[tokio::test]
async fn slow_writes_end_soon_after_the_controller_stops() {
    let world = World::new();
    world.server.intercept(|_| slow_admission());
    let writer = world.writer(4);
    assert!(world.within(&writer, "web-1", SLOW_REQUEST).await.unwrap().is_err());
    let stop = world.stop.clone();
    let env = world.env.clone();
    let stopping = world.env.spawn("stop", async move {
        env.sleep(Duration::from_secs(2)).await;
        stop.cancel();
    });
    let error = world.within(&writer, "web-1", Duration::from_secs(2) + DEADLINE).await.unwrap().unwrap_err();
    assert!(matches!(error, WriteError::Unconfirmed(_)), "{error:?}");
    assert!(stopping.is_finished());
    assert!(matches!(world.within(&writer, "web-1", SLOW_REQUEST).await, Some(Err(WriteError::Fenced))));
}

#[tokio::test]
async fn behind_a_closed_fence_nothing_is_sent() {
    let world = World::new();
    end_fence(&world.fence);
    assert!(matches!(world.create().await, Err(WriteError::Fenced)));
    assert!(world.server.take_log().is_empty());
}

#[rstest]
#[case::just_too_short(DEADLINE, false)]
#[case::just_long_enough(DEADLINE + Duration::from_millis(1), true)]
#[tokio::test]
async fn a_write_starts_only_if_the_lease_outlives_its_deadline(
    #[case] validity: Duration,
    #[case] sent: bool,
) {
    let mut world = World::new();
    world.fence = fence_for(&world.env, validity);
    assert_eq!(world.create().await.is_ok(), sent);
}

#[tokio::test]
async fn the_lease_is_checked_after_the_wait_for_a_slot() {
    let mut world = World::new();
    let second = Duration::from_secs(1);
    world.fence = fence_for(&world.env, DEADLINE + second / 2);
    world.server.intercept(move |_| Conduct::slow(second));
    let writer = world.writer(1);
    let (first, late) = (machine("web-1"), machine("web-2"));
    let writes = async {
        futures::join!(
            writer.create::<Value>(TestWrite::Object, MACHINES.to_owned(), first),
            writer.create::<Value>(TestWrite::Object, MACHINES.to_owned(), late),
        )
    };
    let mut writes = Box::pin(writes);
    assert!(futures::poll!(&mut writes).is_pending());
    let ((first, late), ()) = futures::join!(writes, world.clock.advance(second));
    assert!(first.is_ok());
    assert!(matches!(late, Err(WriteError::Fenced)), "{late:?}");
}

#[tokio::test]
async fn an_event_needs_no_time_of_the_lease() {
    let mut world = World::new();
    world.fence = fence_for(&world.env, DEADLINE);
    let created: Result<Value, _> =
        world.writer(1).create(TestWrite::Event, MACHINES.to_owned(), machine("web-1")).await;
    assert!(created.is_ok());
    assert!(matches!(world.create().await, Err(WriteError::Fenced)));
}

#[tokio::test]
async fn writes_in_flight_are_bounded() {
    let world = World::new();
    let writer = world.writer(3);
    let machines: Vec<Value> = (0..12).map(|number| machine(&format!("web-{number}"))).collect();
    let creates = machines
        .into_iter()
        .map(|machine| writer.create::<Value>(TestWrite::Object, MACHINES.to_owned(), machine));
    assert!(join_all(creates).await.iter().all(Result::is_ok));
    assert_eq!(world.server.most_in_flight(), 3);
}

#[tokio::test]
async fn a_permit_is_free_again_after_a_failure() {
    let world = World::new();
    world.server.intercept(|_| Fate::Unreachable);
    let writer = world.writer(1);
    for _ in 0..3 {
        let result = writer.create::<Value>(TestWrite::Object, MACHINES.to_owned(), machine("web-1")).await;
        assert!(matches!(result, Err(WriteError::Unconfirmed(_))));
    }
}

#[tokio::test]
async fn a_delete_requires_the_uid_and_spares_another_object() {
    let world = World::new();
    let created = world.create().await.unwrap();
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let writer = world.writer(1);
    let other = ObjectId::new("web-1", "another");
    let error = writer.delete(TestWrite::Object, MACHINES.to_owned(), &other, None).await.unwrap_err();
    assert!(error.is_conflict());
    assert!(world.server.get("virtualmachines", "web-1").is_some());
    let same = ObjectId::new("web-1", uid);
    writer.delete(TestWrite::Object, MACHINES.to_owned(), &same, None).await.unwrap();
    assert!(world.server.get("virtualmachines", "web-1").is_none());
    assert!(writer.delete(TestWrite::Object, MACHINES.to_owned(), &same, None).await.unwrap_err().is_gone());
    let deletes: Vec<Call> =
        world.server.take_log().into_iter().filter(|call| call.verb == Verb::Delete).collect();
    assert_eq!(deletes.len(), 3);
    assert_eq!(deletes[1].body["preconditions"], json!({ "uid": uid }));
    assert_eq!(deletes[1].body["propagationPolicy"], "Background");

    let created = world.create().await.unwrap();
    let same = ObjectId::new("web-1", created["metadata"]["uid"].as_str().unwrap());
    let kind = TestWrite::Object;
    writer.delete_dependents_first(kind, MACHINES.to_owned(), &same, None).await.unwrap();
    let mut log = world.server.take_log().into_iter();
    let delete = log.find(|call| call.verb == Verb::Delete).unwrap();
    assert_eq!(delete.body["propagationPolicy"], "Foreground");
}

#[tokio::test]
async fn a_patch_reaches_the_subresource_that_is_named() {
    let world = World::new();
    world.create().await.unwrap();
    let writer = world.writer(1);
    let patch = Patch::Merge(json!({ "spec": { "a": 1 }, "status": { "b": 2 } }));
    let both = |object: &Value| (object["spec"]["a"].clone(), object["status"]["b"].clone());
    let path = MACHINES.to_owned();
    let object: Value =
        writer.patch(TestWrite::Object, path.clone(), "web-1", None, patch.clone()).await.unwrap();
    assert_eq!(both(&object), (json!(1), Value::Null));
    let object: Value = writer.patch(TestWrite::Object, path, "web-1", Some("status"), patch).await.unwrap();
    assert_eq!(both(&object), (json!(1), json!(2)));
    let log = world.server.take_log();
    assert!(
        log[1..].iter().all(|call| call.parameter("fieldManager") == Some("vmpool-controller")),
        "{log:?}"
    );
}
