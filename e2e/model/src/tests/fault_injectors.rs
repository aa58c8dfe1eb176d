//! Referees: how they treat requests, and what they may do meanwhile.

use super::*;

struct Fixed(Vec<RequestOutcome>);

impl FaultInjector for Fixed {
    fn decide(&mut self, call: &Call) -> Handling {
        let outcome = if call.is_write() { self.0.pop().unwrap_or_default() } else { RequestOutcome::Serve };
        outcome.into()
    }
}

#[rstest]
#[case::refused(RequestOutcome::Refuse(ApiError::new(429, "TooManyRequests", "slow down").after(1)), 0)]
#[case::answer_lost(RequestOutcome::ResponseLost, 1)]
#[case::served_and_refused(RequestOutcome::ServeAndRefuse(ApiError::new(504, "Timeout", "too slow")), 1)]
#[case::unreachable(RequestOutcome::Unreachable, 0)]
#[case::answered_on_the_way(RequestOutcome::Respond(502, json!("who are you?")), 0)]
#[tokio::test]
async fn a_fault_injector_decides_the_outcome_of_a_request(
    #[case] outcome: RequestOutcome,
    #[case] created: usize,
) {
    let world = world();
    world.server.set_fault_injector(Fixed(vec![outcome]));
    assert!(world.machines().create(&PostParams::default(), &machine("a", &json!({}))).await.is_err());
    assert_eq!(world.server.all(MACHINES).len(), created);
    world.machine("b", json!({})).await;
}

#[tokio::test]
async fn a_response_of_a_proxy_reaches_the_client() {
    let world = world();
    world.server.set_fault_injector(Fixed(vec![RequestOutcome::Respond(403, json!("who are you?"))]));
    let created = world.machines().create(&PostParams::default(), &machine("a", &json!({}))).await;
    let kube::Error::Api(status) = created.expect_err("a refusal") else { panic!("no answer") };
    assert!(status.code == 403 && status.message.contains("who are you?"), "{status:?}");
}

/// Creates the object before the request does.
struct CreatesFirst(ApiServerModel);

impl FaultInjector for CreatesFirst {
    fn decide(&mut self, call: &Call) -> Handling {
        if call.verb == Verb::Create {
            let mut object = call.body.clone();
            object["metadata"]["namespace"] = json!(call.namespace);
            self.0.create_now(MACHINES, object).expect("the first");
            self.0.remove_fault_injector();
        }
        Handling::default()
    }
}

#[tokio::test]
async fn changes_by_a_fault_injector_take_effect_before_the_request() {
    let world = world();
    world.server.set_fault_injector(CreatesFirst(world.server.clone()));
    let create =
        || async { world.machines().create(&PostParams::default(), &machine("a", &json!({}))).await };
    assert_eq!(reason(create().await), (409, "AlreadyExists".into()));
    world.machines().delete("a", &DeleteParams::default()).await.unwrap();
    assert!(create().await.is_ok(), "the fault injector was removed");
}

struct Slow;

impl FaultInjector for Slow {
    fn decide(&mut self, call: &Call) -> Handling {
        Handling::slow(Duration::from_secs(call.is_write().into()))
    }
}

#[tokio::test]
async fn the_server_counts_concurrent_requests() {
    let world = world();
    world.server.set_fault_injector(Slow);
    for names in [&["a", "b", "c"][..], &["d", "e"]] {
        let creates = futures::future::join_all(names.iter().map(|name| world.machine(name, json!({}))));
        let passes = async {
            world.clock.settle().await;
            world.clock.advance(Duration::from_secs(1)).await;
        };
        futures::join!(creates, passes);
        world.machines().get("a").await.unwrap();
    }
    assert_eq!(world.server.max_in_flight(), 3);
}

struct Panicking;

impl FaultInjector for Panicking {
    fn decide(&mut self, call: &Call) -> Handling {
        panic!("unexpected request for {}", call.resource)
    }
}

#[tokio::test]
#[should_panic(expected = "unexpected request for virtualmachines")]
async fn a_panic_of_the_fault_injector_reaches_the_sender() {
    let world = world();
    world.server.set_fault_injector(Panicking);
    drop(world.machines().get("a").await);
}
