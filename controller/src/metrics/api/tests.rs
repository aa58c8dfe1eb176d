use http::Request;
use rstest::rstest;
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;
use crate::testing::{Conduct, Fate, NAMESPACE, RecordingApiServer};

const GROUP: &str = "/apis/virtualization.deckhouse.io/v1alpha2";

fn plurals() -> Vec<(Cow<'static, str>, Resource)> {
    let metrics = ApiMetrics::new(&mut MetricsRegistry::new(), &test_env(&ManualClock::new(), 0));
    metrics.layer().0.plurals.to_vec()
}

#[rstest]
#[case::a_pool(Method::GET, "/namespaces/a/virtualmachinepools/web", Verb::Get, Resource::Pools)]
#[case::a_status(
    Method::PATCH,
    "/namespaces/a/virtualmachinepools/web/status?x=1",
    Verb::Patch,
    Resource::PoolStatus
)]
#[case::a_new_machine(
    Method::POST,
    "/namespaces/a/virtualmachines?fieldManager=x",
    Verb::Create,
    Resource::Machines
)]
#[case::all_machines(Method::GET, "/virtualmachines?limit=500", Verb::List, Resource::Machines)]
#[case::those_of_a_namespace(Method::GET, "/namespaces/a/virtualmachines", Verb::List, Resource::Machines)]
#[case::changes(Method::GET, "/virtualdisks?&watch=true&resourceVersion=7", Verb::Watch, Resource::Disks)]
#[case::a_deletion(Method::DELETE, "/namespaces/a/virtualmachines/x", Verb::Delete, Resource::Machines)]
#[case::another_subresource(
    Method::PUT,
    "/namespaces/a/virtualmachines/x/status",
    Verb::Update,
    Resource::Other
)]
#[case::an_unknown_resource(Method::GET, "/namespaces/a/virtualimages/x", Verb::Get, Resource::Other)]
#[case::a_pool_that_is_called_like_a_resource(
    Method::GET,
    "/namespaces/virtualdisks/virtualmachinepools/events",
    Verb::Get,
    Resource::Pools
)]
fn the_labels_of_a_request_come_from_its_path(
    #[case] method: Method,
    #[case] path: &str,
    #[case] verb: Verb,
    #[case] resource: Resource,
) {
    let uri = format!("{GROUP}{path}").parse().unwrap();
    assert_eq!(classify_request(&plurals(), &method, &uri), (verb, resource));
}

#[rstest]
#[case("/apis/coordination.k8s.io/v1/namespaces/a/leases/x", Verb::Get, Resource::Leases)]
#[case("/apis/events.k8s.io/v1/namespaces/a/events", Verb::List, Resource::Events)]
#[case("/api/v1/namespaces/a/events", Verb::List, Resource::Events)]
#[case("/version", Verb::List, Resource::Other)]
fn requests_of_other_groups_are_known_too(
    #[case] path: &str,
    #[case] verb: Verb,
    #[case] resource: Resource,
) {
    assert_eq!(classify_request(&plurals(), &Method::GET, &path.parse().unwrap()), (verb, resource));
}

/// Reads a missing pool with this conduct of the server, and stops after a second.
async fn counted(conduct: impl Fn() -> Conduct + Send + 'static) -> (u64, u64) {
    let clock = ManualClock::new();
    let env = test_env(&clock, 0);
    let metrics = ApiMetrics::new(&mut MetricsRegistry::new(), &env);
    let server = RecordingApiServer::new(&env);
    server.intercept(move |_| conduct());
    let client = server.model().client_through("controller", NAMESPACE, &metrics.layer());
    let path = format!("{GROUP}/namespaces/a/virtualmachinepools/web");
    let asking = env.clone().spawn("asking", {
        let env = env.clone();
        async move {
            let request = Request::get(path).body(Vec::new()).unwrap();
            let _ = env.timeout(Duration::from_secs(1), client.request_text(request)).await;
        }
    });
    clock.settle().await;
    clock.advance(Duration::from_secs(2)).await;
    asking.join().await.unwrap();
    let of = |code| {
        metrics
            .series
            .requests
            .get_or_create(&RequestLabels { verb: Verb::Get, resource: Resource::Pools, code })
            .get()
    };
    (of(ApiResponseCode::Status(404)), of(ApiResponseCode::NoResponse))
}

#[tokio::test]
async fn a_response_is_counted_by_its_code() {
    assert_eq!(counted(Conduct::default).await, (1, 0));
}

#[tokio::test]
async fn a_broken_connection_makes_a_write_unconfirmed() {
    assert_eq!(counted(|| Fate::Unreachable.into()).await, (0, 1));
}

#[tokio::test]
async fn a_cancelled_request_is_unconfirmed() {
    assert_eq!(counted(|| Conduct::slow(Duration::from_mins(1))).await, (0, 1));
}
