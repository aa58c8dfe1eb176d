//! A process of this program, which a test can kill at any time.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use futures::FutureExt;
use futures::future::{AbortHandle, Abortable, BoxFuture};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::Value;
use tower::ServiceExt;
use vmpool_runtime::Env;
use vmpool_runtime::env::{Spawner, Task, TokioSpawner};
use vmpool_runtime::health::HealthEndpoints;
use vmpool_runtime::https::Peer;
use vmpool_runtime::testing::SeededEntropy;
use vmpool_runtime::tls::PeerCertificate;

use super::{ApiServerWorld, SETTINGS};
use crate::authentication::RequestHeaders;
use crate::metrics::ApiServerMetrics;
use crate::router::api_router;
use crate::state::{ApiServerSettings, ApiServerState};

/// A spawner whose tasks a test can abort all at once.
#[derive(Clone, Default)]
struct Killable {
    killed: Arc<AtomicBool>,
    tasks: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Killable {
    fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        self.tasks.lock().iter().for_each(AbortHandle::abort);
    }

    fn abortable<F: Future>(&self, future: F) -> Abortable<F> {
        let (handle, registration) = AbortHandle::new_pair();
        if self.killed.load(Ordering::SeqCst) {
            handle.abort();
        }
        self.tasks.lock().push(handle);
        Abortable::new(future, registration)
    }
}

impl Spawner for Killable {
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        TokioSpawner.spawn(name, self.abortable(future).map(drop).boxed());
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) code: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
}

/// A replica of the program.
#[derive(Clone)]
pub(crate) struct ApiServerProcess {
    killable: Killable,
    pub(crate) metrics: ApiServerMetrics,
    router: Router,
    _platform: Arc<Task>,
}

/// Typical data of the ConfigMap `kube-system/extension-apiserver-authentication`.
pub(crate) fn front_proxy() -> BTreeMap<String, String> {
    [
        ("client-ca-file", "another certificate"),
        ("requestheader-client-ca-file", "some certificate"),
        ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

impl ApiServerProcess {
    pub(crate) fn start(world: &ApiServerWorld, seed: u64, settings: ApiServerSettings) -> Self {
        let killable = Killable::default();
        let entropy = Arc::new(SeededEntropy::new(seed));
        let env = Env::new(Arc::new(world.clock.clone()), entropy, Arc::new(killable.clone()));
        let metrics = ApiServerMetrics::new(|_| ());
        let health = HealthEndpoints::new();
        let state =
            ApiServerState::new(world.server.client(), env.clone(), settings, health, metrics.clone());
        // The model answers the first read at once, as far as the clock goes.
        let platform = env.spawn("platform", state.follow_platform());
        state.authenticator.replace(Arc::new(RequestHeaders::parse(&front_proxy()).unwrap()));
        Self { killable, router: api_router(state), metrics, _platform: Arc::new(platform) }
    }

    /// A process whose feature gate is off.
    pub(crate) fn without_the_feature(world: &ApiServerWorld) -> Self {
        Self::start(world, 1, ApiServerSettings { enabled: false, ..SETTINGS })
    }

    pub(crate) fn kill(&self) {
        self.killable.kill();
    }

    /// Sends a request as the front proxy. `None` if the process is killed before it responds.
    pub(crate) async fn call(&self, mut request: Request<Body>) -> Option<TestResponse> {
        let certificate = PeerCertificate { common_name: Some("front-proxy-client".to_owned()) };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        request.extensions_mut().insert(Peer { certificate: Some(certificate), address });
        self.send(request).await
    }

    /// Sends a request without changes.
    pub(crate) async fn send(&self, request: Request<Body>) -> Option<TestResponse> {
        let router = self.router.clone();
        let exchange = async move {
            let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
            TestResponse { code: parts.status, headers: parts.headers, body }
        };
        self.killable.abortable(exchange).boxed().await.ok()
    }

    /// Requests the removal of machines from the pool `web`.
    pub(crate) async fn remove(&self, targets: &[&str]) -> Option<TestResponse> {
        self.post("", &serde_json::json!({ "targets": targets }).to_string()).await
    }

    /// Requests a removal from the pool `web`, with any query and body.
    pub(crate) async fn post(&self, query: &str, body: &str) -> Option<TestResponse> {
        let path =
            "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/web/scaledownwith";
        self.call(request_as_alice("POST", &format!("{path}{query}"), body)).await
    }
}

/// A request of the user alice.
pub(crate) fn request_as_alice(method: &str, uri: &str, body: &str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header("X-Remote-User", "alice")
        .header("X-Remote-Group", "operators")
        .body(Body::from(body.to_owned()))
        .unwrap()
}

/// The names of the targets and their results, as the details of a response list them.
pub(crate) fn results_of(answer: &TestResponse) -> Vec<(String, String)> {
    let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    causes.iter().map(|cause| (text(cause, "message"), text(cause, "reason"))).collect()
}
