use serde_json::json;

use super::*;
use crate::metrics::ApiServerMetrics;
use crate::testing::{ApiServerWorld, RequestFault, SETTINGS};

fn alice() -> AuthenticatedUser {
    AuthenticatedUser {
        name: "alice".to_owned(),
        uid: "u1".to_owned(),
        groups: vec!["operators".to_owned()],
        extra: [("scopes".to_owned(), vec!["pools".to_owned()])].into(),
    }
}

fn removal(name: &str) -> RequestInfo {
    RequestInfo::Resource(ResourceRequest {
        group: "subresources.vmpool.dev".to_owned(),
        version: "v1alpha1".to_owned(),
        namespace: "team-a".to_owned(),
        resource: "virtualmachinepools".to_owned(),
        name: name.to_owned(),
        subresource: "scaledownwith".to_owned(),
        verb: "create",
        has_more_segments: false,
    })
}

fn authorizer(world: &ApiServerWorld) -> Authorizer {
    let cluster = ClusterClient::new(world.server.client(), world.env.clone(), SETTINGS.request_timeout);
    Authorizer::new(cluster, world.env.clone(), ApiServerMetrics::new(|_| ()))
}

#[tokio::test]
async fn the_review_contains_the_caller_and_the_request() {
    let world = ApiServerWorld::new(1);
    let authorizer = authorizer(&world);
    world.through(authorizer.authorize(&alice(), &removal("web"))).await.unwrap();
    let document = RequestInfo::NonResource { path: "/apis".to_owned(), verb: "get".to_owned() };
    world.through(authorizer.authorize(&alice(), &document)).await.unwrap();
    let log = world.server.take_log();
    assert_eq!(
        log[0].body["spec"],
        json!({
            "user": "alice",
            "uid": "u1",
            "groups": ["operators"],
            "extra": { "scopes": ["pools"] },
            "resourceAttributes": {
                "group": "subresources.vmpool.dev",
                "version": "v1alpha1",
                "namespace": "team-a",
                "resource": "virtualmachinepools",
                "subresource": "scaledownwith",
                "name": "web",
                "verb": "create",
            },
        })
    );
    assert_eq!(log[1].body["spec"]["nonResourceAttributes"], json!({ "path": "/apis", "verb": "get" }));
    assert!(log[1].body["spec"]["resourceAttributes"].is_null());
}

#[tokio::test]
async fn a_denial_has_the_message_of_kubernetes() {
    let world = ApiServerWorld::new(1);
    let authorizer = authorizer(&world);
    world.server.deny(Some("no role"));
    let error = world.through(authorizer.authorize(&alice(), &removal("web"))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "virtualmachinepools.subresources.vmpool.dev \"web\" is forbidden: User \"alice\" cannot create resource \
         \"virtualmachinepools/scaledownwith\" in API group \"subresources.vmpool.dev\" in the namespace \"team-a\": \
         no role"
    );
    let document = RequestInfo::NonResource { path: "/apis".to_owned(), verb: "get".to_owned() };
    let error = world.through(authorizer.authorize(&alice(), &document)).await.unwrap_err();
    assert_eq!(error.to_string(), "forbidden: User \"alice\" cannot get path \"/apis\": no role");
    assert_eq!(error.code(), 403);
}

#[tokio::test]
async fn a_decision_is_cached_for_five_seconds() {
    let world = ApiServerWorld::new(1);
    let authorizer = authorizer(&world);
    let ask = async |user: &AuthenticatedUser, name: &str| {
        world.through(authorizer.authorize(user, &removal(name))).await.is_ok()
    };
    for denied in [Some("no"), None] {
        world.server.deny(denied);
        let allowed = denied.is_none();
        assert_eq!(ask(&alice(), "web").await, allowed);
        // A change of permissions has no effect until the entry expires.
        world.server.deny(if allowed { Some("no") } else { None });
        world.clock.advance(Duration::from_millis(4_900)).await;
        assert_eq!(ask(&alice(), "web").await, allowed);
        assert_eq!(world.server.take_log().len(), 1);
        world.clock.advance(Duration::from_millis(200)).await;
        assert_eq!(ask(&alice(), "web").await, !allowed);
        assert_eq!(world.server.take_log().len(), 1);
        world.clock.advance(Duration::from_secs(6)).await;
    }
}

#[tokio::test]
async fn decisions_are_cached_for_each_caller_and_request() {
    let world = ApiServerWorld::new(1);
    let authorizer = authorizer(&world);
    let others = [
        AuthenticatedUser { name: "bob".to_owned(), ..alice() },
        AuthenticatedUser { groups: Vec::new(), ..alice() },
        AuthenticatedUser { extra: std::collections::BTreeMap::new(), ..alice() },
        AuthenticatedUser { uid: "u2".to_owned(), ..alice() },
    ];
    world.through(authorizer.authorize(&alice(), &removal("web"))).await.unwrap();
    world.server.deny(Some("no"));
    for other in others {
        assert!(world.through(authorizer.authorize(&other, &removal("web"))).await.is_err(), "{other:?}");
    }
    assert!(world.through(authorizer.authorize(&alice(), &removal("db"))).await.is_err());
    assert!(world.through(authorizer.authorize(&alice(), &removal("web"))).await.is_ok());
}

#[tokio::test]
async fn a_failed_review_denies_and_is_not_cached() {
    let world = ApiServerWorld::new(1);
    let authorizer = authorizer(&world);
    world.server.intercept(|_, _| RequestFault::Refuse(500, "InternalError"));
    let error = world.through(authorizer.authorize(&alice(), &removal("web"))).await.unwrap_err();
    assert_eq!(error.code(), 500);
    world.server.clear_faults();
    assert!(world.through(authorizer.authorize(&alice(), &removal("web"))).await.is_ok());
}

fn key(user: AuthenticatedUser, pool: &str) -> AuthorizationKey {
    AuthorizationKey { user, request: removal(pool) }
}

#[test]
fn the_number_of_cached_decisions_is_limited() {
    let cache = AuthorizationCache::new(100, CACHE_TTL);
    let now = Duration::from_secs(100);
    for index in 0..1000 {
        cache.put(key(alice(), &format!("web-{index}")), None, now);
    }
    assert_eq!(cache.len(), 100);
    assert_eq!(cache.get(&key(alice(), "web-899"), now), None);
    assert_eq!(cache.get(&key(alice(), "web-900"), now), Some(None));
    // If a request is reviewed repeatedly, the expiry of an earlier review does not remove the latest
    // decision.
    for index in 0..1000 {
        cache.put(key(alice(), "web-0"), None, now + Duration::from_millis(index));
    }
    assert_eq!(cache.len(), 100);
    let later = now + Duration::from_millis(5_500);
    assert_eq!(cache.get(&key(alice(), "web-0"), later), Some(None));
    cache.put(key(alice(), "web-1"), None, now + Duration::from_mins(1));
    assert_eq!(cache.len(), 1);
}

#[test]
fn the_size_of_cached_decisions_is_limited() {
    let cache = AuthorizationCache::new(CACHE_SIZE, CACHE_TTL);
    let now = Duration::from_secs(100);
    let of_groups = |count: usize| AuthenticatedUser { groups: vec!["x".repeat(100); count], ..alice() };
    for index in 0..CACHE_SIZE {
        cache.put(key(of_groups(200), &format!("web-{index}")), Some("y".repeat(1000)), now);
    }
    assert!(cache.bytes() <= 8 << 20, "{} bytes", cache.bytes());
    assert!(cache.len() > 100);
    let bytes = cache.bytes();
    let large = key(of_groups(2000), "web");
    cache.put(large.clone(), None, now);
    assert_eq!(
        (cache.get(&large, now), cache.bytes()),
        (None, bytes),
        "an entry that is too large is not cached"
    );
}
