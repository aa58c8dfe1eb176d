use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use http::Request;
use kube::Config;
use rstest::rstest;
use tokio::sync::Notify;

use super::*;
use crate::env::Task;
use crate::tls::pki::Ca;

/// A deadline for all operations of these tests.
const SOON: Duration = Duration::from_secs(20);

/// A kubeconfig without a running API server. These tests send no requests to it.
fn kubeconfig(folder: &Path) -> ClientArgs {
    let path = folder.join("kubeconfig");
    let text = r#"{"apiVersion":"v1","kind":"Config","current-context":"c",
        "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
        "clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"u","user":{}}]}"#;
    std::fs::write(&path, text).unwrap();
    ClientArgs { kubeconfig: Some(path) }
}

fn files(folder: &Path) -> ServingConfig {
    let source =
        CertificateSource::Files { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
    ServingConfig { address: "127.0.0.1:0".parse().unwrap(), source }
}

fn probes() -> HealthArgs {
    HealthArgs { health_address: "127.0.0.1:0".parse().unwrap(), metrics_authorization: false }
}

/// A running program, whose response at `/slow` waits for `gate`.
struct World {
    _folder: tempfile::TempDir,
    gate: Arc<Notify>,
    asked: Arc<Notify>,
    stop: CancellationToken,
    requests: Client,
    probes: Client,
    life: Task,
}

impl World {
    async fn start(certified: bool) -> Self {
        let (folder, ca, env) = (tempfile::tempdir().unwrap(), Ca::new("server"), Env::system());
        let (client, health) = (kubeconfig(folder.path()), probes());
        if certified {
            let leaf = ca.serving("127.0.0.1");
            std::fs::write(folder.path().join("tls.crt"), leaf.chain).unwrap();
            std::fs::write(folder.path().join("tls.key"), leaf.key).unwrap();
        }
        let program = BoundProgram::open("test/1", files(folder.path()), &client, &health).await.unwrap();
        let mut config = Config::new(format!("https://{}", program.address()).parse().unwrap());
        (config.accept_invalid_certs, config.default_retry) = (true, false);
        let requests = Client::try_from(config).unwrap();
        let mut config = Config::new(format!("http://{}", program.probe_address()).parse().unwrap());
        config.default_retry = false;
        let (gate, asked) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let router = Router::new().route("/slow", {
            let (gate, asked) = (gate.clone(), asked.clone());
            get(async move || {
                asked.notify_one();
                gate.notified().await;
                "done"
            })
        });
        let service = ProgramService {
            router,
            clients: ClientCas::none(),
            limits: Limits { linger: Duration::ZERO, ..Limits::default() },
            certificates: CertificateMetrics::default(),
            traffic: TrafficMetrics::default(),
        };
        let stop = CancellationToken::new();
        let life = env.spawn("program", {
            let (env, stop) = (env.clone(), stop.clone());
            async move { program.serve(service, &env, stop).await.unwrap() }
        });
        Self { _folder: folder, gate, asked, stop, requests, probes: Client::try_from(config).unwrap(), life }
    }

    async fn probe(&self, path: &str) -> Result<String, kube::Error> {
        self.probes.request_text(Request::get(path).body(Vec::new()).unwrap()).await
    }

    async fn ready(&self) {
        let ready = async {
            while self.probe("/readyz").await.is_err() {
                Env::system().sleep(Duration::from_millis(20)).await;
            }
        };
        Env::system().timeout(SOON, ready).await.unwrap();
    }
}

#[tokio::test]
async fn without_a_certificate_the_program_is_live_and_not_ready() {
    let world = World::start(false).await;
    let refused = world.probe("/readyz?verbose").await.unwrap_err().to_string();
    assert!(refused.contains("there is no certificate yet"), "{refused}");
    assert_eq!(world.probe("/livez").await.unwrap(), "ok");
}

#[tokio::test]
async fn the_health_endpoints_end_after_the_last_request() {
    let world = World::start(true).await;
    world.ready().await;
    let requests = world.requests.clone();
    let slow = Request::get("/slow").body(Vec::new()).unwrap();
    let asking = Env::system().spawn("asking", async move {
        assert_eq!(requests.request_text(slow).await.unwrap(), "done");
    });
    Env::system().timeout(SOON, world.asked.notified()).await.unwrap();
    world.stop.cancel();
    // During the shutdown, the health endpoints and the request continue.
    for _ in 0..20 {
        assert_eq!(world.probe("/livez").await.unwrap(), "ok");
        Env::system().sleep(Duration::from_millis(10)).await;
    }
    world.gate.notify_one();
    Env::system().timeout(SOON, asking.join()).await.unwrap().unwrap();
    let World { life, probes, .. } = world;
    Env::system().timeout(SOON, life.join()).await.unwrap().unwrap();
    let late = probes.request_text(Request::get("/livez").body(Vec::new()).unwrap()).await;
    assert!(late.is_err(), "the health endpoints have ended");
}

#[rstest]
#[case::probes(true, "health checks")]
#[case::requests(false, "HTTPS")]
#[tokio::test]
async fn a_port_in_use_is_reported(#[case] of_probes: bool, #[case] what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (mut serving, mut health) = (files(folder.path()), probes());
    if of_probes {
        health.health_address = address;
    } else {
        serving.address = address;
    }
    let error = BoundProgram::open("test/1", serving, &kubeconfig(folder.path()), &health).await.unwrap_err();
    assert_eq!(error.to_string(), format!("listening on {address} for {what}"));
}

#[tokio::test]
async fn a_missing_kubeconfig_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let client = ClientArgs { kubeconfig: Some(folder.path().join("nothing")) };
    let error = BoundProgram::open("test/1", files(folder.path()), &client, &probes()).await.unwrap_err();
    assert_eq!(error.to_string(), "connecting to the API server");
}
