//! Tests with the real router and an API server in memory, one request at a time.

mod agreement;
mod autoscalers;
mod callers;
mod cost;
mod existing_references;
mod fuzz;
mod hostile;
mod images;
mod kubevirt;
mod protocol;
mod reviews;
mod slow_bodies;
mod telemetry;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::ByteString;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use vmpool_engine::admission::PrivilegedUsers;
use vmpool_platforms::admission::{AdmissionSettings, ClusterCapabilities, admission_rules};
use vmpool_platforms::dvp::admission::{POOL_PATH, SCALE_PATH};
use vmpool_runtime::Env;
use vmpool_runtime::https::Peer;
use vmpool_runtime::testing::{ManualClock, test_env};
use vmpool_runtime::tls::PeerCertificate;

use crate::metrics::WebhookMetrics;
use crate::{Callers, ReviewState, webhook_router};

const HANDLER: &str = "system:serviceaccount:vmpool-system:vmpool-apiserver";
const API: &str = "/apis/virtualization.deckhouse.io/v1alpha2";

/// An API server in memory that records its requests.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    objects: BTreeMap<String, (StatusCode, Value)>,
    requests: Vec<String>,
    /// The server does not respond.
    silent: bool,
}

impl Server {
    fn put(&self, path: &str, object: Value) {
        self.0.lock().objects.insert(format!("{API}{path}"), (StatusCode::OK, object));
    }

    fn fail(&self, path: &str, code: u16, message: &str) {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
            "reason": "Unknown", "code": code });
        let code = StatusCode::from_u16(code).unwrap();
        self.0.lock().objects.insert(format!("{API}{path}"), (code, status));
    }

    /// The paths of the requests since the last call of this function.
    fn requests(&self) -> Vec<String> {
        let mut requests = std::mem::take(&mut self.0.lock().requests);
        requests.sort();
        requests
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move {
                let (silent, answer) = {
                    let mut stored = server.0.lock();
                    let path = request.uri().path().to_owned();
                    stored.requests.push(path.clone());
                    let query = request.uri().path_and_query().map(ToString::to_string);
                    let page = query.and_then(|query| stored.objects.get(&query));
                    (stored.silent, page.or_else(|| stored.objects.get(&path)).cloned())
                };
                if silent {
                    std::future::pending::<()>().await;
                }
                let (code, body) = answer.unwrap_or_else(|| {
                    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "message": "not found", "reason": "NotFound", "code": 404 });
                    (StatusCode::NOT_FOUND, status)
                });
                let response = Response::builder().status(code).body(Body::from(body.to_string())).unwrap();
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        Client::new(service, "default")
    }
}

/// A webhook and its environment.
struct World {
    server: Server,
    metrics: Arc<WebhookMetrics>,
    clock: ManualClock,
    router: Router,
    /// The common name of the client's certificate, if it has one.
    certificate: Option<&'static str>,
}

/// The common name of the API server's certificate.
const API_SERVER: &str = "kube-apiserver";

impl World {
    /// A webhook that requires the certificate of the API server.
    fn new() -> Self {
        Self::accepting(Callers::Certified([API_SERVER.to_owned()].into()))
    }

    fn accepting(callers: Callers) -> Self {
        let clock = ManualClock::new();
        let env: Env = test_env(&clock, 0);
        let settings = AdmissionSettings {
            users: PrivilegedUsers { removal_handler: Some(HANDLER.to_owned()), controller: None },
            cluster: ClusterCapabilities::default(),
        };
        let (server, metrics) = (Server::default(), WebhookMetrics::new());
        let router = webhook_router(
            &ReviewState::new(admission_rules(&settings), server.client(), metrics.clone(), env)
                .accepting(callers),
        );
        Self { server, metrics, clock, router, certificate: Some(API_SERVER) }
    }

    /// The same webhook in a cluster with the objects that [`pool`] refers to.
    fn with_objects() -> Self {
        Self::new().add_objects()
    }

    fn add_objects(self) -> Self {
        let world = self;
        world.server.put("/virtualmachineclasses/small", json!({ "metadata": { "name": "small" } }));
        let image = json!({ "status": { "phase": "Ready", "cdrom": false, "size": { "unpackedBytes": "2147483648" } } });
        world.server.put("/clustervirtualimages/debian", image);
        world
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
        let request =
            Request::post(path).header("content-type", "application/json").body(body.into()).unwrap();
        self.send(request).await
    }

    async fn send(&self, mut request: Request<Body>) -> (StatusCode, Vec<u8>) {
        let common_name = self.certificate.map(str::to_owned);
        let certificate = common_name.map(|name| PeerCertificate { common_name: Some(name) });
        request.extensions_mut().insert(Peer { certificate, address: ([10, 0, 0, 1], 40_000).into() });
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        (status, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    /// The `response` of a review.
    async fn review(&self, path: &str, review: &Value) -> Value {
        let (status, body) = self.post(path, review.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&answer["apiVersion"], &answer["kind"]),
            (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
        );
        assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
        answer["response"].clone()
    }

    async fn create(&self, pool: &Value) -> Value {
        self.review(POOL_PATH, &review("CREATE", "", &Value::Null, pool)).await
    }

    async fn update(&self, old: &Value, new: &Value) -> Value {
        self.review(POOL_PATH, &review("UPDATE", "", old, new)).await
    }

    async fn scale(&self, from: i64, to: i64) -> Value {
        self.review(SCALE_PATH, &review("UPDATE", "scale", &scale(from), &scale(to))).await
    }

    /// The value of a series on the metrics page.
    fn series(&self, series: &str) -> u64 {
        let page = self.metrics.page();
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in\n{page}")).parse().unwrap()
    }
}

/// The scale of the pool with this count.
fn scale(replicas: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": { "name": "builders", "namespace": "team-a", "uid": "u" },
        "spec": { "replicas": replicas },
    })
}

fn review(operation: &str, subresource: &str, old: &Value, new: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": { "group": "virtualization.deckhouse.io", "version": "v1alpha2", "kind": "VirtualMachinePool" },
            "resource": { "group": "virtualization.deckhouse.io", "version": "v1alpha2", "resource": "virtualmachinepools" },
            "subResource": subresource,
            "name": "builders",
            "namespace": "team-a",
            "operation": operation,
            "userInfo": { "username": "alice", "uid": "014fbff9a07c", "groups": ["system:authenticated"] },
            "object": new,
            "oldObject": old,
            "dryRun": false,
            "options": { "kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1" },
        },
    })
}

/// A valid pool.
fn pool() -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualMachinePool",
        "metadata": { "name": "builders", "namespace": "team-a", "uid": "u", "resourceVersion": "7" },
        "spec": {
            "replicas": 3,
            "scaleDownPolicy": "OldestFirst",
            "virtualMachineTemplate": { "spec": {
                "virtualMachineClassName": "small",
                "cpu": { "cores": 2 },
                "memory": { "size": "1Gi" },
                "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }],
            } },
            "virtualDiskTemplates": [{ "name": "root", "spec": { "dataSource": {
                "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": "debian" },
            } } }],
        },
    })
}

/// The pool with the field at a JSON pointer replaced.
fn with(mut pool: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    pool.pointer_mut(parent).unwrap()[name] = value;
    pool
}

/// The JSON patch of a response.
fn patch(response: &Value) -> Value {
    assert_eq!(response["patchType"], "JSONPatch", "{response}");
    let ByteString(patch) = serde_json::from_value(response["patch"].clone()).unwrap();
    serde_json::from_slice(&patch).unwrap()
}
