use axum::body::to_bytes;
use rstest::rstest;
use tower::ServiceExt as _;

use super::*;

const LARGEST_BODY: usize = 1 << 20;

/// A dashboard without a cluster, and the other ends of its channels.
struct Dashboard {
    router: Router,
    /// The path with the token.
    entry: String,
    orders: mpsc::Receiver<PlanOrder>,
    _objects: watch::Sender<WatchedObjects>,
}

fn dashboard() -> Dashboard {
    let env = Env::system();
    let (objects, watched) = watch::channel(WatchedObjects::default());
    let (plans, orders) = mpsc::channel(1);
    let session = DashboardSession::new(&env, 4000);
    let entry = session.address().replace("http://127.0.0.1:4000", "");
    let state = DashboardState { session, watched, plans, env };
    Dashboard { router: dashboard_router(Arc::new(state)), entry, orders, _objects: objects }
}

impl Dashboard {
    async fn get(&self, path: &str, cookie: &str) -> Response<Body> {
        let request = Request::builder().uri(path).header("host", "127.0.0.1:4000").header("cookie", cookie);
        self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    /// Uses the token. Returns the cookie.
    async fn enter(&self) -> String {
        let response = self.get(&self.entry, "").await;
        assert_eq!(response.status(), StatusCode::OK);
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }
}

async fn text_of(response: Response<Body>) -> String {
    let bytes = to_bytes(response.into_body(), LARGEST_BODY).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn the_token_leads_to_the_page_once() {
    let dashboard = dashboard();
    assert_eq!(dashboard.get("/", "").await.status(), StatusCode::FORBIDDEN);
    let cookie = dashboard.enter().await;
    let page = dashboard.get("/", &cookie).await;
    assert_eq!(page.status(), StatusCode::OK);
    assert!(text_of(page).await.starts_with("<!doctype html>"));
    let again = dashboard.get(&dashboard.entry, "").await;
    assert_eq!(again.status(), StatusCode::FORBIDDEN);
    assert!(text_of(again).await.contains("another program did"));
}

#[rstest]
#[case::page("/")]
#[case::file("/script.js")]
#[case::board("/api/board")]
#[case::changes("/api/changes")]
#[case::unknown("/unknown")]
#[tokio::test]
async fn each_response_has_the_security_headers(#[case] path: &str) {
    let dashboard = dashboard();
    let refused = dashboard.get(path, "").await;
    let cookie = dashboard.enter().await;
    for response in [refused, dashboard.get(path, &cookie).await] {
        let headers = response.headers();
        assert_eq!(headers[CONTENT_SECURITY_POLICY], content_security_policy());
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[REFERRER_POLICY], "no-referrer");
        assert_eq!(headers[CACHE_CONTROL], "no-store");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
        let permits_others = |name: &HeaderName| name.as_str().starts_with("access-control-");
        assert!(!headers.keys().any(permits_others), "{headers:?}");
    }
}

#[tokio::test]
async fn the_board_is_json() {
    let dashboard = dashboard();
    let cookie = dashboard.enter().await;
    let response = dashboard.get("/api/board", &cookie).await;
    assert_eq!(response.headers()[CONTENT_TYPE], JSON);
    let board: Value = serde_json::from_str(&text_of(response).await).unwrap();
    assert_eq!(board["pools"], json!([]));
}

#[tokio::test]
async fn a_plan_is_computed_for_the_query() {
    let mut dashboard = dashboard();
    let cookie = dashboard.enter().await;
    let refused = dashboard.get("/api/plan?platform=dvp", &cookie).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(text_of(refused).await.contains("the request has no"));
    let mut orders = std::mem::replace(&mut dashboard.orders, mpsc::channel(1).1);
    let query = "platform=dvp&namespace=a&pool=web&replicas=4";
    let path = format!("/api/plan?{query}");
    let answer = async {
        let order = orders.recv().await.unwrap();
        assert_eq!(order.scale, PlannedScale::parse(query).unwrap());
        order.reply.send(Ok(json!({ "now": [] }))).unwrap();
    };
    let (response, ()) = tokio::join!(dashboard.get(&path, &cookie), answer);
    assert_eq!((response.status(), text_of(response).await), (StatusCode::OK, r#"{"now":[]}"#.to_owned()));
    // If the worker ends, the request fails.
    drop(orders);
    assert_eq!(dashboard.get(&path, &cookie).await.status(), StatusCode::BAD_REQUEST);
}
