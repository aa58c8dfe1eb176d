//! Tests of the whole program: probes, HTTPS and shutdown, with an API server that only returns its version.

use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use clap::Parser;
use http::Request;
use kube::Config;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use vmpool_runtime::env::Task;

use super::*;
use vmpool_platforms::dvp::admission::{POOL_PATH, SCALE_PATH};

const VERSION: &str = r#"{"major":"1","minor":"36","gitVersion":"v1.36.0","gitCommit":"x","gitTreeState":"clean",
    "buildDate":"2026-01-01T00:00:00Z","goVersion":"go1.26","compiler":"gc","platform":"linux/amd64"}"#;

/// A port that is probably free.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Serves `/version`. Other paths return 404.
async fn api_server(env: &Env) -> (u16, Task) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new().route("/version", get(async || VERSION));
    (port, env.spawn("api-server", async move { axum::serve(listener, router).await.unwrap() }))
}

fn files(folder: &Path, api_port: u16) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://127.0.0.1:{api_port}") } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    std::fs::write(folder.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    made.cert.der().to_vec()
}

struct Program {
    reviews: Client,
    probes: Client,
    stop: CancellationToken,
    task: Task,
    _api_server: Task,
    _folder: tempfile::TempDir,
}

async fn start(gate: bool) -> Program {
    let env = Env::system();
    let folder = tempfile::tempdir().unwrap();
    let (api_port, api_server) = api_server(&env).await;
    let authority = files(folder.path(), api_port);
    let (port, health_port) = (free_port(), free_port());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let flags = [
        "vmpool-webhook".to_owned(),
        format!("--listen-address=127.0.0.1:{port}"),
        format!("--health-address=127.0.0.1:{health_port}"),
        format!("--tls-cert-file={}", file("tls.crt")),
        format!("--tls-private-key-file={}", file("tls.key")),
        format!("--kubeconfig={}", file("kubeconfig")),
        format!("--feature-gates=VirtualMachinePool={gate}"),
    ];
    let stop = CancellationToken::new();
    let task = env.spawn("webhook", {
        let (env, stop) = (env.clone(), stop.clone());
        async move { run_webhook(WebhookOptions::parse_from(flags), env, stop).await.unwrap() }
    });
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.root_cert = Some(vec![authority]);
    let probes = Config::new(format!("http://127.0.0.1:{health_port}").parse().unwrap());
    Program {
        reviews: Client::try_from(config).unwrap(),
        probes: Client::try_from(probes).unwrap(),
        stop,
        task,
        _api_server: api_server,
        _folder: folder,
    }
}

impl Program {
    /// Waits until the program is ready: it has a certificate and is connected to the API server.
    async fn ready(&self) {
        let asked = async {
            while self.probes.request_text(Request::get("/readyz").body(Vec::new()).unwrap()).await.is_err() {
                Env::system().sleep(Duration::from_millis(20)).await;
            }
        };
        Env::system().timeout(Duration::from_secs(20), asked).await.expect("the program becomes ready");
    }

    async fn post(&self, path: &str, review: &Value) -> Result<Value, kube::Error> {
        let request = Request::post(path).header("content-type", "application/json");
        self.reviews.request(request.body(review.to_string().into_bytes()).unwrap()).await
    }
}

fn review() -> Value {
    let pool = |replicas: i32| json!({ "spec": { "scaleDownPolicy": "Explicit", "replicas": replicas } });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "UPDATE", "oldObject": pool(2), "object": pool(1), "userInfo": { "username": "alice" } } })
}

#[tokio::test]
async fn the_program_becomes_ready_answers_reviews_over_https_and_exits() {
    let program = start(true).await;
    program.ready().await;
    let answer = program.post(POOL_PATH, &review()).await.unwrap();
    assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("u"), &json!(false)));
    assert_eq!(answer["response"]["auditAnnotations"]["rule"], "W12");
    let page = Request::get("/metrics").body(Vec::new()).unwrap();
    let page = program.probes.request_text(page).await.unwrap();
    let series = r#"vmpool_webhook_requests_total{path="pool",operation="update",verdict="refused"} 1"#;
    assert!(page.contains(series), "{page}");
    drop(program.reviews);
    program.stop.cancel();
    Env::system()
        .timeout(Duration::from_secs(20), program.task.join())
        .await
        .expect("the program exits")
        .unwrap();
}

#[tokio::test]
async fn with_the_gate_off_the_program_is_ready_and_answers_no_review() {
    let program = start(false).await;
    program.ready().await;
    for path in [POOL_PATH, SCALE_PATH] {
        let error = program.post(path, &review()).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error}");
    }
}
