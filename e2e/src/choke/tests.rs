use std::time::Duration;

use futures::stream;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_model::{Server, platform};
use vmpool_runtime::Env;

use super::passage::{Onward, Passage};
use super::*;

fn write(path: &str) -> Asked {
    Asked { method: Method::POST, path: path.to_owned() }
}

fn read(path: &str) -> Asked {
    Asked { method: Method::GET, path: path.to_owned() }
}

#[test]
fn a_trap_triggers_once_at_its_request() {
    let trap = Trap {
        filter: Box::new(Asked::is_write),
        passing: 1,
        moment: Moment::Before,
        action: Box::new(|| ()),
    };
    let mut state = State { trap: Some(trap), seen: Vec::new() };
    assert!(state.sprung(&read("/a")).is_none(), "a read does not match");
    assert!(state.sprung(&write("/a")).is_none(), "the first match passes");
    assert!(state.sprung(&read("/a")).is_none());
    assert!(state.sprung(&write("/b")).is_some());
    assert!(state.sprung(&write("/c")).is_none(), "the trap was already triggered");
    assert_eq!(state.seen.len(), 5);
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
struct Told {
    passage: Passage,
    views: watch::Sender<Views>,
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

impl Told {
    fn new(view: View) -> Self {
        let mut views = Views::default();
        views.set("things", view);
        Self { passage: Passage::of("things"), views: watch::channel(views).0 }
    }

    fn of_events(view: View, count: u32) -> Self {
        let mut told = Self::new(view);
        (1..=count).for_each(|version| told.says("MODIFIED", version));
        told
    }

    fn says(&mut self, kind: &str, version: u32) {
        self.passage.take(line(kind, version).into());
    }

    fn release(&self) {
        self.views.send_modify(Views::release);
    }

    /// The delivered versions; 410 for an error with that code, and 0 for the end of the connection.
    fn hears(&mut self) -> Vec<u32> {
        let mut out = Vec::new();
        let onward = self.passage.advance(&self.views, &mut out);
        let end = (onward == Onward::No).then_some(0);
        out.iter().map(|line| version(line)).chain(end).collect()
    }
}

#[rstest]
#[case::live_events_arrive(View::Live, &[1, 2, 3, 4])]
#[case::the_newest_events_are_delayed(View::Behind(3), &[1])]
#[case::nothing_arrives(View::Silent, &[])]
#[case::events_arrive_twice(View::Twice, &[1, 1, 2, 2, 3, 3, 4, 4])]
#[case::the_connection_ends(View::Closed(2), &[1, 2, 0])]
#[case::the_watch_is_too_old(View::Expired(2), &[1, 2, 410, 0])]
#[case::events_are_lost(View::Lost(2), &[410, 0])]
#[case::the_connection_ends_at_once(View::Refused, &[0])]
fn a_watch_delivers_what_its_view_allows(#[case] view: View, #[case] expected: &[u32]) {
    assert_eq!(Told::of_events(view, 4).hears(), expected);
}

#[rstest]
#[case::behind(View::Behind(3))]
#[case::silent(View::Silent)]
fn held_events_arrive_after_the_release(#[case] view: View) {
    let mut told = Told::of_events(view, 3);
    assert_eq!(told.hears(), [0; 0]);
    told.release();
    assert_eq!(told.hears(), [1, 2, 3]);
}

#[test]
fn a_one_time_fault_happens_once() {
    let mut told = Told::of_events(View::Closed(1), 1);
    assert_eq!(told.hears(), [1, 0]);
    let mut next = Told { passage: Passage::of("things"), views: told.views };
    next.says("MODIFIED", 2);
    assert_eq!(next.hears(), [2]);
}

#[test]
fn a_watch_with_lost_events_gets_410_after_the_release() {
    let mut told = Told::of_events(View::Lost(5), 3);
    assert_eq!(told.hears(), [0; 0]);
    told.release();
    assert_eq!(told.hears(), [410, 0]);
    told.release();
    assert_eq!(told.views.borrow().of("things"), View::Live, "the error is sent only once");
}

#[test]
fn a_bookmark_keeps_its_position_and_does_not_count() {
    let mut told = Told::of_events(View::Behind(1), 1);
    told.says("BOOKMARK", 2);
    assert_eq!(told.hears(), [0; 0], "no newer event has arrived");
    told.says("ADDED", 3);
    assert_eq!(told.hears(), [1, 2]);
}

#[test]
fn a_silent_connection_does_not_show_its_end() {
    let mut told = Told::of_events(View::Silent, 1);
    told.passage.end();
    assert_eq!(told.hears(), [0; 0]);
    told.release();
    assert_eq!(told.hears(), [1, 0]);
}

#[test]
fn after_a_forgotten_connection_the_next_one_is_live() {
    let mut told = Told::of_events(View::Forgotten, 1);
    assert_eq!(told.hears(), [0; 0]);
    told.views.send_modify(|views| assert!(views.begins("things")));
    assert_eq!(told.hears(), [0; 0]);
    told.passage.end();
    assert_eq!(told.hears(), [0; 0]);
    let mut next = Told { passage: Passage::of("things"), views: told.views };
    next.says("MODIFIED", 2);
    assert_eq!(next.hears(), [2]);
}

#[tokio::test]
async fn lines_are_reassembled_from_chunks() {
    let text = [line("ADDED", 1), line("BOOKMARK", 2), line("DELETED", 3), "{\"half".to_owned()].concat();
    let pieces: Vec<_> = text.as_bytes().chunks(7).map(|piece| Ok::<_, Infallible>(piece.to_vec())).collect();
    let (views, _) = watch::channel(Views::default());
    let seen = passage::through(Body::from_stream(stream::iter(pieces)), "things", views);
    let heard = axum::body::to_bytes(seen, usize::MAX).await.unwrap();
    let versions: Vec<u32> = heard.split_inclusive(|&byte| byte == b'\n').map(version).collect();
    assert_eq!(versions, [1, 2, 3], "an incomplete line is dropped");
}

#[test]
fn a_refused_watch_can_start_again_after_a_list() {
    let mut views = Views::default();
    views.set("things", View::Refused);
    views.release();
    assert!(views.refuses("things") && !views.refuses("others"));
    assert!(!views.lists("others") && views.lists("things"));
    assert!(!views.refuses("things"));
}

#[tokio::test]
async fn a_trap_triggers_even_if_the_client_gives_up() {
    let client = Server::new(&Env::system(), platform()).client("someone", "default");
    let (tell, told) = tokio::sync::oneshot::channel();
    let action = Box::new(move || tell.send(()).unwrap());
    let trap = Trap { filter: Box::new(Asked::is_write), passing: 0, moment: Moment::After, action };
    let state = Arc::new(Mutex::new(State { trap: Some(trap), seen: Vec::new() }));
    let shared = Shared { client, state, views: watch::channel(Views::default()).0 };
    let request = http::Request::post("/api/v1/namespaces/default/things").body(Body::empty()).unwrap();
    let mut asked = Box::pin(pass(shared, request));
    assert!(futures::poll!(&mut asked).is_pending());
    drop(asked);
    tokio::time::timeout(Duration::from_secs(10), told).await.expect("the request has arrived").unwrap();
}

/// A proxy without requests.
fn unused() -> Choke {
    let (state, (views, _)) = (Arc::new(Mutex::new(State::default())), watch::channel(Views::default()));
    Choke { port: 0, state, views, _task: AbortOnDropHandle::new(tokio::spawn(async {})) }
}

#[tokio::test]
async fn done_waits_until_the_action_has_run() {
    let choke = unused();
    let sprung = choke.trap(Asked::is_write, 0, Moment::After, || 7);
    let trap = choke.state.lock().sprung(&write("/a")).unwrap();
    let mut done = Box::pin(sprung.done());
    assert!(futures::poll!(&mut done).is_pending(), "the request has arrived, but the action has not run");
    (trap.action)();
    assert_eq!(done.await.unwrap(), 7);
}

#[tokio::test]
async fn done_fails_if_the_trap_is_removed() {
    let choke = unused();
    let sprung = choke.trap(Asked::is_write, 0, Moment::After, || ());
    assert!(choke.disarm());
    assert!(matches!(sprung.done().await, Err(Error::TaskEnded { .. })));
}
