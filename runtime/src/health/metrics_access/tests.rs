use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body as ClientBody;
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::health::HealthEndpoints;
use crate::testing::{ManualClock, test_env};

/// An API server that knows tokens of the form `USER` or `may-read-USER`, and records its reviews.
#[derive(Clone, Default)]
struct Server {
    reviews: Arc<Mutex<Vec<Value>>>,
    silent: Arc<Mutex<bool>>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<ClientBody>| {
            let server = server.clone();
            async move {
                let path = request.uri().path().to_owned();
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let mut review: Value = serde_json::from_slice(&bytes).unwrap();
                if *server.silent.lock() {
                    futures::future::pending::<()>().await;
                }
                server.reviews.lock().push(review.clone());
                let user = review["spec"]["token"].as_str().filter(|token| !token.starts_with("forged"));
                review["status"] = match path.as_str() {
                    "/apis/authentication.k8s.io/v1/tokenreviews" => json!({
                        "authenticated": user.is_some(),
                        "user": { "username": user, "groups": ["scrapers"], "extra": { "pod": ["p"] } },
                    }),
                    "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                        let user = review["spec"]["user"].as_str().unwrap_or_default();
                        json!({ "allowed": user.starts_with("may-read") })
                    }
                    other => panic!("{other}"),
                };
                let body = Body::from(review.to_string());
                Ok::<_, std::convert::Infallible>(Response::new(body))
            }
        });
        Client::new(service, "default")
    }

    fn count(&self) -> usize {
        self.reviews.lock().len()
    }
}

struct World {
    clock: ManualClock,
    server: Server,
    health: HealthEndpoints,
}

impl World {
    fn new() -> Self {
        let (clock, server, health) = (ManualClock::new(), Server::default(), HealthEndpoints::new());
        health.metrics(|| "# EOF\n".to_owned());
        health.restrict_metrics(MetricsAccess::new(server.client(), test_env(&clock, 0)));
        Self { clock, server, health }
    }

    async fn get(&self, path: &str, authorization: Option<&str>) -> StatusCode {
        let mut request = Request::get(path);
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let response = self.health.router().oneshot(request.body(Body::empty()).unwrap());
        let (response, ()) = futures::join!(response, self.clock.advance(INTERVAL));
        response.unwrap().status()
    }
}

#[rstest]
#[case::without_a_token(None, StatusCode::UNAUTHORIZED, 0)]
#[case::with_another_scheme(Some("Basic may-read"), StatusCode::UNAUTHORIZED, 0)]
#[case::with_an_empty_token(Some("Bearer "), StatusCode::UNAUTHORIZED, 0)]
#[case::with_a_forged_token(Some("Bearer forged"), StatusCode::UNAUTHORIZED, 1)]
#[case::of_a_user_without_the_right(Some("Bearer prober"), StatusCode::FORBIDDEN, 2)]
#[case::of_a_user_with_the_right(Some("bearer may-read-it"), StatusCode::OK, 2)]
#[tokio::test]
async fn only_users_with_the_right_read_the_metrics(
    #[case] authorization: Option<&str>,
    #[case] status: StatusCode,
    #[case] reviews: usize,
) {
    let world = World::new();
    assert_eq!(world.get("/metrics", authorization).await, status);
    assert_eq!(world.server.count(), reviews);
    assert_eq!(world.get("/livez", None).await, StatusCode::OK, "probes need no token");
    assert_eq!(world.get("/readyz", None).await, StatusCode::OK);
}

#[tokio::test]
async fn the_review_contains_the_user_and_the_url() {
    let world = World::new();
    world.get("/metrics", Some("Bearer may-read-it")).await;
    let spec = world.server.reviews.lock()[1]["spec"].clone();
    let extra = BTreeMap::from([("pod", ["p"])]);
    assert_eq!(
        spec,
        json!({ "user": "may-read-it", "groups": ["scrapers"], "extra": extra,
            "nonResourceAttributes": { "path": "/metrics", "verb": "get" } })
    );
}

#[tokio::test]
async fn a_token_is_not_reviewed_again_for_a_short_time() {
    let world = World::new();
    for (token, age, reviews) in [("Bearer may-read-it", ACCEPTED, 2), ("Bearer forged", REFUSED, 1)] {
        let before = world.server.count();
        let status = world.get("/metrics", Some(token)).await;
        assert_eq!(world.get("/metrics", Some(token)).await, status);
        assert_eq!(world.server.count() - before, reviews);
        world.clock.advance(age).await;
        assert_eq!(world.get("/metrics", Some(token)).await, status);
        assert_eq!(world.server.count() - before, 2 * reviews);
    }
}

#[tokio::test]
async fn forged_tokens_are_limited_and_do_not_displace_an_accepted_one() {
    let world = World::new();
    let (accepted, start) = (Some("Bearer may-read-it"), world.server.count());
    assert_eq!(world.get("/metrics", accepted).await, StatusCode::OK);
    let flood = (0..300).map(|number| {
        let health = &world.health;
        async move {
            let request = Request::get("/metrics").header("authorization", format!("Bearer forged-{number}"));
            let response = health.router().oneshot(request.body(Body::empty()).unwrap()).await;
            response.unwrap().status()
        }
    });
    let (statuses, ()) = futures::join!(
        futures::future::join_all(flood),
        world.clock.advance(DEADLINE + Duration::from_secs(1))
    );
    let reviewed = world.server.count() - start - 2;
    assert!((40..=52).contains(&reviewed), "{reviewed} reviews in five seconds");
    assert!(statuses.contains(&StatusCode::SERVICE_UNAVAILABLE) && !statuses.contains(&StatusCode::OK));
    let before = world.server.count();
    assert_eq!(world.get("/metrics", accepted).await, StatusCode::OK);
    assert_eq!(world.server.count(), before, "it is still remembered");
}

#[tokio::test]
async fn the_number_of_remembered_tokens_is_limited() {
    let clock = ManualClock::new();
    let access = MetricsAccess::new(Server::default().client(), test_env(&clock, 0));
    let at = |verdict| Remembered { verdict, reviewed_at: test_env(&clock, 0).uptime() };
    access.remember("accepted", at(MetricsAccessVerdict::Allowed));
    for number in 0..2 * TOKENS {
        access.remember(&format!("forged-{number}"), at(MetricsAccessVerdict::Unauthenticated));
    }
    assert_eq!(access.remembered.lock().len(), TOKENS);
    assert_eq!(access.remembered("accepted"), Some(MetricsAccessVerdict::Allowed));
    for number in 0..2 * TOKENS {
        access.remember(&format!("accepted-{number}"), at(MetricsAccessVerdict::Allowed));
    }
    assert_eq!(access.remembered.lock().len(), TOKENS);
}

#[tokio::test]
async fn without_an_answer_of_the_api_server_there_are_no_metrics() {
    let world = World::new();
    *world.server.silent.lock() = true;
    let request = Request::get("/metrics").header("authorization", "Bearer may-read-it");
    let response = world.health.router().oneshot(request.body(Body::empty()).unwrap());
    let (response, ()) = futures::join!(response, world.clock.advance(DEADLINE));
    assert_eq!(response.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}
