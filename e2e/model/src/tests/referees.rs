//! Referees: how they treat requests, and what they may do meanwhile.

use super::*;

struct Fixed(Vec<Fate>);

impl Referee for Fixed {
    fn judge(&mut self, call: &Call) -> Conduct {
        let fate = if call.is_write() { self.0.pop().unwrap_or_default() } else { Fate::Serve };
        fate.into()
    }
}

#[rstest]
#[case::refused(Fate::Refuse(Refusal::new(429, "TooManyRequests", "slow down").after(1)), 0)]
#[case::answer_lost(Fate::AnswerLost, 1)]
#[case::served_and_refused(Fate::ServeAndAnswer(Refusal::new(504, "Timeout", "too slow")), 1)]
#[case::unreachable(Fate::Unreachable, 0)]
#[case::answered_on_the_way(Fate::Answer(502, json!("who are you?")), 0)]
#[tokio::test]
async fn a_referee_decides_the_fate_of_a_request(#[case] fate: Fate, #[case] made: usize) {
    let world = world();
    world.server.set_referee(Fixed(vec![fate]));
    assert!(world.machines().create(&PostParams::default(), &machine("a", &json!({}))).await.is_err());
    assert_eq!(world.server.all(MACHINES).len(), made);
    world.machine("b", json!({})).await;
}

#[tokio::test]
async fn a_response_of_a_proxy_reaches_the_client() {
    let world = world();
    world.server.set_referee(Fixed(vec![Fate::Answer(403, json!("who are you?"))]));
    let created = world.machines().create(&PostParams::default(), &machine("a", &json!({}))).await;
    let kube::Error::Api(status) = created.expect_err("a refusal") else { panic!("no answer") };
    assert!(status.code == 403 && status.message.contains("who are you?"), "{status:?}");
}

/// Creates the object before the request does.
struct Meddler(Server);

impl Referee for Meddler {
    fn judge(&mut self, call: &Call) -> Conduct {
        if call.verb == Verb::Create {
            let mut object = call.body.clone();
            object["metadata"]["namespace"] = json!(call.namespace);
            self.0.create_now(MACHINES, object).expect("the first");
            self.0.dismiss_referee();
        }
        Conduct::default()
    }
}

#[tokio::test]
async fn changes_by_a_referee_take_effect_before_the_request() {
    let world = world();
    world.server.set_referee(Meddler(world.server.clone()));
    let create =
        || async { world.machines().create(&PostParams::default(), &machine("a", &json!({}))).await };
    assert_eq!(reason(create().await), (409, "AlreadyExists".into()));
    world.machines().delete("a", &DeleteParams::default()).await.unwrap();
    assert!(create().await.is_ok(), "the referee was dismissed");
}

struct Slow;

impl Referee for Slow {
    fn judge(&mut self, call: &Call) -> Conduct {
        Conduct::slow(Duration::from_secs(call.is_write().into()))
    }
}

#[tokio::test]
async fn the_server_counts_concurrent_requests() {
    let world = world();
    world.server.set_referee(Slow);
    for names in [&["a", "b", "c"][..], &["d", "e"]] {
        let creates = futures::future::join_all(names.iter().map(|name| world.machine(name, json!({}))));
        let passes = async {
            world.clock.settle().await;
            world.clock.advance(Duration::from_secs(1)).await;
        };
        futures::join!(creates, passes);
        world.machines().get("a").await.unwrap();
    }
    assert_eq!(world.server.most_under_way(), 3);
}

struct Panicking;

impl Referee for Panicking {
    fn judge(&mut self, call: &Call) -> Conduct {
        panic!("unexpected request for {}", call.resource)
    }
}

#[tokio::test]
#[should_panic(expected = "unexpected request for virtualmachines")]
async fn a_panic_of_the_referee_reaches_the_sender() {
    let world = world();
    world.server.set_referee(Panicking);
    drop(world.machines().get("a").await);
}
