use std::time::Duration;

use futures::stream;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_model::{ApiServerModel, platform_resources};
use vmpool_runtime::Env;

use super::watch_stream::{ConnectionState, WatchStream};
use super::*;

fn write(path: &str) -> RequestLine {
    RequestLine { method: Method::POST, path: path.to_owned() }
}

fn read(path: &str) -> RequestLine {
    RequestLine { method: Method::GET, path: path.to_owned() }
}

#[test]
fn a_trap_triggers_once_at_its_request() {
    let trap = Trap {
        filter: Box::new(RequestLine::is_write),
        skip: 1,
        drop_point: DropPoint::Before,
        action: Box::new(|| ()),
    };
    let mut state = State { trap: Some(trap), ..State::default() };
    assert!(state.triggered(&read("/a")).is_none(), "a read does not match");
    assert!(state.triggered(&write("/a")).is_none(), "the first match passes");
    assert!(state.triggered(&read("/a")).is_none());
    assert!(state.triggered(&write("/b")).is_some());
    assert!(state.triggered(&write("/c")).is_none(), "the trap was already triggered");
    assert_eq!(state.requests.len(), 5);
}

#[test]
fn a_watch_is_distinguished_from_a_list() {
    let watch = read("/apis/a/v1/namespaces/b/things?&watch=true&resourceVersion=7");
    assert_eq!((watch.watched(), watch.listed()), (Some("things"), None));
    let list = read("/apis/a/v1/namespaces/b/things?&limit=500");
    assert_eq!((list.watched(), list.listed()), (None, Some("things")));
    assert_eq!(write("/apis/a/v1/namespaces/b/things").listed(), None);
}

/// A watch of `things` and its received lines.
struct TestWatch {
    watch_stream: WatchStream,
    faults: watch::Sender<WatchFaults>,
}

/// The line of an event, with its type first, as the API server writes it.
fn line(kind: &str, version: u32) -> String {
    let object = json!({ "metadata": { "resourceVersion": version.to_string() } });
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// The version in a line, or the status code of an error.
fn version(line: &[u8]) -> u32 {
    let event: Value = serde_json::from_slice(line).unwrap();
    match event["object"]["metadata"]["resourceVersion"].as_str() {
        Some(version) => version.parse().unwrap(),
        None => event["object"]["code"].as_u64().unwrap().try_into().unwrap(),
    }
}

impl TestWatch {
    fn new(fault: WatchFault) -> Self {
        let mut faults = WatchFaults::default();
        faults.set("things", fault);
        Self { watch_stream: WatchStream::of("things"), faults: watch::channel(faults).0 }
    }

    fn of_events(fault: WatchFault, count: u32) -> Self {
        let mut watch = Self::new(fault);
        (1..=count).for_each(|version| watch.send("MODIFIED", version));
        watch
    }

    fn send(&mut self, kind: &str, version: u32) {
        self.watch_stream.push_line(line(kind, version).into());
    }

    fn release(&self) {
        self.faults.send_modify(WatchFaults::release);
    }

    /// The delivered versions; 410 for an error with that code, and 0 for the end of the connection.
    fn receive(&mut self) -> Vec<u32> {
        let mut out = Vec::new();
        let connection = self.watch_stream.advance(&self.faults, &mut out);
        let end = (connection == ConnectionState::Closed).then_some(0);
        out.iter().map(|line| version(line)).chain(end).collect()
    }
}

#[rstest]
#[case::live_events_arrive(WatchFault::Live, &[1, 2, 3, 4])]
#[case::the_newest_events_are_delayed(WatchFault::Behind(3), &[1])]
#[case::nothing_arrives(WatchFault::Silent, &[])]
#[case::events_arrive_twice(WatchFault::Duplicated, &[1, 1, 2, 2, 3, 3, 4, 4])]
#[case::the_connection_ends(WatchFault::Closed(2), &[1, 2, 0])]
#[case::the_watch_is_too_old(WatchFault::Expired(2), &[1, 2, 410, 0])]
#[case::events_are_lost(WatchFault::Lost(2), &[410, 0])]
#[case::the_connection_ends_at_once(WatchFault::Refused, &[0])]
fn a_watch_delivers_what_its_view_allows(#[case] fault: WatchFault, #[case] expected: &[u32]) {
    assert_eq!(TestWatch::of_events(fault, 4).receive(), expected);
}

#[rstest]
#[case::behind(WatchFault::Behind(3))]
#[case::silent(WatchFault::Silent)]
fn held_events_arrive_after_the_release(#[case] fault: WatchFault) {
    let mut watch = TestWatch::of_events(fault, 3);
    assert_eq!(watch.receive(), [0; 0]);
    watch.release();
    assert_eq!(watch.receive(), [1, 2, 3]);
}

#[test]
fn a_one_time_fault_happens_once() {
    let mut watch = TestWatch::of_events(WatchFault::Closed(1), 1);
    assert_eq!(watch.receive(), [1, 0]);
    let mut next = TestWatch { watch_stream: WatchStream::of("things"), faults: watch.faults };
    next.send("MODIFIED", 2);
    assert_eq!(next.receive(), [2]);
}

#[test]
fn a_watch_with_lost_events_gets_410_after_the_release() {
    let mut watch = TestWatch::of_events(WatchFault::Lost(5), 3);
    assert_eq!(watch.receive(), [0; 0]);
    watch.release();
    assert_eq!(watch.receive(), [410, 0]);
    watch.release();
    assert_eq!(watch.faults.borrow().of("things"), WatchFault::Live, "the error is sent only once");
}

#[test]
fn each_connection_that_lost_an_event_gets_410() {
    let mut one = TestWatch::of_events(WatchFault::Lost(2), 1);
    let mut other = TestWatch { watch_stream: WatchStream::of("things"), faults: one.faults.clone() };
    assert_eq!(one.receive(), [0; 0]);
    let mut notified = one.faults.subscribe();
    other.send("MODIFIED", 1);
    assert_eq!(other.receive(), [410, 0]);
    assert!(notified.has_changed().unwrap(), "an idle connection must notice it");
    notified.mark_unchanged();
    assert_eq!(one.receive(), [410, 0]);
    let mut next = TestWatch { watch_stream: WatchStream::of("things"), faults: one.faults };
    next.send("MODIFIED", 2);
    assert_eq!(next.receive(), [2]);
}

#[test]
fn a_bookmark_keeps_its_position_and_does_not_count() {
    let mut watch = TestWatch::of_events(WatchFault::Behind(1), 1);
    watch.send("BOOKMARK", 2);
    assert_eq!(watch.receive(), [0; 0], "no newer event has arrived");
    watch.send("ADDED", 3);
    assert_eq!(watch.receive(), [1, 2]);
}

#[test]
fn a_silent_connection_does_not_show_its_end() {
    let mut watch = TestWatch::of_events(WatchFault::Silent, 1);
    watch.watch_stream.end();
    assert_eq!(watch.receive(), [0; 0]);
    watch.release();
    assert_eq!(watch.receive(), [1, 0]);
}

#[test]
fn after_a_forgotten_connection_the_next_one_is_live() {
    let mut watch = TestWatch::of_events(WatchFault::HalfOpen, 1);
    assert_eq!(watch.receive(), [0; 0]);
    watch.faults.send_modify(|faults| assert!(faults.watch_started("things")));
    assert_eq!(watch.receive(), [0; 0]);
    watch.watch_stream.end();
    assert_eq!(watch.receive(), [0; 0]);
    let mut next = TestWatch { watch_stream: WatchStream::of("things"), faults: watch.faults };
    next.send("MODIFIED", 2);
    assert_eq!(next.receive(), [2]);
}

#[tokio::test]
async fn lines_are_reassembled_from_chunks() {
    let text = [line("ADDED", 1), line("BOOKMARK", 2), line("DELETED", 3), "{\"half".to_owned()].concat();
    let pieces: Vec<_> = text.as_bytes().chunks(7).map(|piece| Ok::<_, Infallible>(piece.to_vec())).collect();
    let (faults, _) = watch::channel(WatchFaults::default());
    let requests = watch_stream::body_with_faults(Body::from_stream(stream::iter(pieces)), "things", faults);
    let body = axum::body::to_bytes(requests, usize::MAX).await.unwrap();
    let versions: Vec<u32> = body.split_inclusive(|&byte| byte == b'\n').map(version).collect();
    assert_eq!(versions, [1, 2, 3], "an incomplete line is dropped");
}

#[test]
fn a_refused_watch_can_start_again_after_a_list() {
    let mut faults = WatchFaults::default();
    faults.set("things", WatchFault::Refused);
    faults.release();
    assert!(faults.refuses("things") && !faults.refuses("others"));
    assert!(!faults.listed("others") && faults.listed("things"));
    assert!(!faults.refuses("things"));
}

#[tokio::test]
async fn a_trap_triggers_even_if_the_client_gives_up() {
    let client = ApiServerModel::new(&Env::system(), platform_resources()).client("someone", "default");
    let (sender, watch) = tokio::sync::oneshot::channel();
    let action = Box::new(move || sender.send(()).unwrap());
    let trap =
        Trap { filter: Box::new(RequestLine::is_write), skip: 0, drop_point: DropPoint::After, action };
    let state = Arc::new(Mutex::new(State { trap: Some(trap), ..State::default() }));
    let shared = Shared { client, state, faults: watch::channel(WatchFaults::default()).0 };
    let request = http::Request::post("/api/v1/namespaces/default/things").body(Body::empty()).unwrap();
    let mut request_line = Box::pin(pass(shared, request));
    assert!(futures::poll!(&mut request_line).is_pending());
    drop(request_line);
    tokio::time::timeout(Duration::from_secs(10), watch).await.expect("the request has arrived").unwrap();
}

/// A proxy without requests.
fn unused() -> FaultProxy {
    let (state, (faults, _)) =
        (Arc::new(Mutex::new(State::default())), watch::channel(WatchFaults::default()));
    FaultProxy { port: 0, state, faults, _task: AbortOnDropHandle::new(tokio::spawn(async {})) }
}

#[tokio::test]
async fn done_waits_until_the_action_has_run() {
    let proxy = unused();
    let triggered = proxy.trap(RequestLine::is_write, 0, DropPoint::After, || 7);
    let trap = proxy.state.lock().triggered(&write("/a")).unwrap();
    let mut done = Box::pin(triggered.done());
    assert!(futures::poll!(&mut done).is_pending(), "the request has arrived, but the action has not run");
    (trap.action)();
    assert_eq!(done.await.unwrap(), 7);
}

#[tokio::test]
async fn done_fails_if_the_trap_is_removed() {
    let proxy = unused();
    let triggered = proxy.trap(RequestLine::is_write, 0, DropPoint::After, || ());
    assert!(proxy.disarm());
    assert!(matches!(triggered.done().await, Err(Error::TaskEnded { .. })));
}
