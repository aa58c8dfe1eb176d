//! Replicas of a program, an API server with a Secret and configurations, and clients that trust the published bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{ServerName, UnixTime};
use serde_json::{Value, json};

use crate::certificates::CertificateMetrics;
use crate::certificates::args::BundleOf;
use crate::certificates::selfsigned::{Keeper, Wanted};
use crate::certificates::timing::Timing;
use crate::env::{Clock as _, Env, Task};
use crate::metrics::Registry;
use crate::testing::{ManualClock, env};
use crate::tls::{Identity, certificates, provider};

pub(super) const SECRET: &str = "/api/v1/namespaces/ns/secrets/hook-tls";
pub(super) const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook";
pub(super) const SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com";
pub(super) const NAME: &str = "hook.ns.svc";

/// A server of three objects, by the rules of the real one.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    versions: u64,
    log: Vec<(Method, String, StatusCode)>,
    down: bool,
    /// Whether answers carry the time.
    silent: bool,
}

impl Server {
    /// A client whose requests take up to `latency`, by chance of `env`. The time is that of `clock`.
    fn client(&self, clock: &ManualClock, env: &Env, latency: Duration) -> Client {
        let (server, clock, env) = (self.clone(), clock.clone(), env.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, clock, env) = (server.clone(), clock.clone(), env.clone());
            async move {
                env.sleep(env.jitter(latency)).await;
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let answer = server.0.lock().answer(&parts.method, parts.uri.path(), &body, clock.now());
                env.sleep(env.jitter(latency)).await;
                answer.ok_or_else(|| tower::BoxError::from("connection refused"))
            }
        });
        Client::new(service, "default")
    }

    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().objects.get(path).cloned()
    }

    pub(super) fn put(&self, path: &str, object: Value) {
        self.0.lock().store(path, object);
    }

    pub(super) fn delete(&self, path: &str) {
        self.0.lock().objects.remove(path);
    }

    pub(super) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(path).unwrap();
        change(&mut object);
        self.put(path, object);
    }

    pub(super) fn down(&self, down: bool) {
        self.0.lock().down = down;
    }

    pub(super) fn silent(&self) {
        self.0.lock().silent = true;
    }

    pub(super) fn take_log(&self) -> Vec<(Method, String, StatusCode)> {
        std::mem::take(&mut self.0.lock().log)
    }

    /// What the Secret has under `key`.
    pub(super) fn secret(&self, key: &str) -> Vec<u8> {
        let data = self.get(SECRET).map(|secret| secret["data"][key].clone()).unwrap_or_default();
        decode(&data)
    }

    /// The published bundles of our webhooks and our APIService.
    pub(super) fn bundles(&self) -> Vec<Vec<u8>> {
        let hooks = self.get(HOOKS).map(|hooks| hooks["webhooks"].clone()).unwrap_or_default();
        let hooks = hooks.as_array().cloned().unwrap_or_default();
        let ours = hooks.iter().map(|hook| &hook["clientConfig"]).filter(|config| {
            config["service"]["name"] == "hook" || config["url"] == "https://10.1.2.3:8443/x"
        });
        let mut all: Vec<_> = ours.map(|config| decode(&config["caBundle"])).collect();
        all.extend(self.get(SERVICE).map(|service| decode(&service["spec"]["caBundle"])));
        all
    }
}

impl State {
    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        body: &[u8],
        now: Timestamp,
    ) -> Option<Response<Full<Bytes>>> {
        if self.down {
            return None;
        }
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).unwrap() };
        let (status, answer) = match *method {
            Method::GET => match self.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => refusal(StatusCode::NOT_FOUND, "NotFound"),
            },
            Method::POST => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                assert_eq!(body["metadata"]["resourceVersion"], Value::Null);
                if self.objects.contains_key(&path) {
                    refusal(StatusCode::CONFLICT, "AlreadyExists")
                } else {
                    (StatusCode::CREATED, self.store(&path, body))
                }
            }
            Method::PUT => match self.objects.get(path) {
                None => refusal(StatusCode::NOT_FOUND, "NotFound"),
                Some(stored) => {
                    assert!(body["metadata"]["resourceVersion"].is_string(), "unconditional write");
                    assert_eq!(body["type"], stored["type"], "the type cannot change");
                    if stored["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"] {
                        (StatusCode::OK, self.store(path, body))
                    } else {
                        refusal(StatusCode::CONFLICT, "Conflict")
                    }
                }
            },
            Method::PATCH => self.patch(path, body.as_array().unwrap()),
            _ => panic!("nobody has a use for {method}"),
        };
        self.log.push((method.clone(), path.to_owned(), status));
        let mut response = Response::builder().status(status);
        if !self.silent {
            let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).unwrap();
            response = response.header("date", date);
        }
        Some(response.body(Full::from(answer.to_string())).unwrap())
    }

    fn patch(&mut self, path: &str, steps: &[Value]) -> (StatusCode, Value) {
        let Some(mut object) = self.objects.get(path).cloned() else {
            return refusal(StatusCode::NOT_FOUND, "NotFound");
        };
        for step in steps {
            let place = step["path"].as_str().unwrap();
            match step["op"].as_str().unwrap() {
                "test" if object.pointer(place) == Some(&step["value"]) => {}
                "test" => {
                    let (code, mut status) = refusal(StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
                    status["message"] = format!("testing value {place} failed: test failed").into();
                    return (code, status);
                }
                "add" => {
                    let (parent, key) = place.rsplit_once('/').unwrap();
                    object.pointer_mut(parent).unwrap()[key] = step["value"].clone();
                }
                other => panic!("{other}"),
            }
        }
        (StatusCode::OK, self.store(path, object))
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.versions += 1;
        object["metadata"]["resourceVersion"] = self.versions.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", self.versions).into();
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

fn refusal(status: StatusCode, reason: &str) -> (StatusCode, Value) {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": reason, "code": status.as_u16() });
    (status, body)
}

pub(super) fn decode(base64: &Value) -> Vec<u8> {
    let bytes: Option<k8s_openapi::ByteString> = serde_json::from_value(base64.clone()).unwrap();
    bytes.map(|bytes| bytes.0).unwrap_or_default()
}

pub(super) fn encode(bytes: &[u8]) -> Value {
    json!(k8s_openapi::ByteString(bytes.to_vec()))
}

/// A configuration with two webhooks of ours and one of somebody else.
pub(super) fn hooks() -> Value {
    json!({ "metadata": { "name": "hook" }, "webhooks": [
        hook("a.example.com", &json!({ "service": { "name": "hook", "namespace": "ns" } })),
        hook("b.example.com", &json!({ "service": { "name": "other", "namespace": "ns" }, "caBundle": encode(b"theirs") })),
        hook("c.example.com", &json!({ "url": "https://10.1.2.3:8443/x" })),
    ]})
}

fn hook(name: &str, config: &Value) -> Value {
    json!({ "name": name, "clientConfig": config, "admissionReviewVersions": ["v1"], "sideEffects": "None" })
}

pub(super) fn api_service(service: &str) -> Value {
    json!({ "metadata": { "name": "v1.example.com" }, "spec": {
        "group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
        "service": { "name": service, "namespace": "ns" } } })
}

/// One process.
pub(super) struct Replica {
    pub(super) identity: Identity,
    pub(super) metrics: CertificateMetrics,
    pub(super) clock: ManualClock,
    _keeper: Task,
}

pub(super) struct World {
    pub(super) clock: ManualClock,
    pub(super) server: Server,
    pub(super) timing: Timing,
    pub(super) replicas: Vec<Replica>,
    /// How long after a change some API server may still use the former bundle.
    pub(super) lag: Duration,
    /// The longest way of a request, and of its answer.
    pub(super) latency: Duration,
    /// What was published when, oldest first.
    history: Vec<(Duration, Vec<Vec<u8>>)>,
    seed: u64,
}

impl World {
    pub(super) fn new(timing: Timing) -> Self {
        let server = Server::default();
        server.put(HOOKS, hooks());
        server.put(SERVICE, api_service("hook"));
        let clock = ManualClock::new();
        Self {
            clock,
            server,
            timing,
            replicas: Vec::new(),
            lag: Duration::ZERO,
            latency: Duration::ZERO,
            history: Vec::new(),
            seed: 0,
        }
    }

    pub(super) fn start(&mut self, names: &[&str]) {
        self.seed += 1;
        let clock = self.clock.with_own_wall();
        let own = env(&clock, self.seed);
        let (identity, metrics) = (Identity::new(), CertificateMetrics::new(&mut Registry::new()));
        let client = self.server.client(&self.clock, &env(&self.clock, 1000 + self.seed), self.latency);
        let wanted = Wanted {
            secret: ("ns".to_owned(), "hook-tls".to_owned()),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            bundles: vec![
                BundleOf::Webhooks("hook".to_owned()),
                BundleOf::ApiService("v1.example.com".to_owned()),
            ],
            timing: self.timing,
        };
        let keeper = Keeper::new(client, wanted, identity.clone(), metrics.clone(), own.clone());
        let keeper = own.spawn("certificates", keeper.run());
        self.replicas.push(Replica { identity, metrics, clock, _keeper: keeper });
    }

    /// Makes what comes by chance come otherwise.
    pub(super) fn skip(&mut self, seeds: u64) {
        self.seed += seeds;
    }

    /// A client without latency.
    pub(super) fn client(&self) -> Client {
        self.server.client(&self.clock, &env(&self.clock, 0), Duration::ZERO)
    }

    /// Three replicas that agree.
    pub(super) async fn settled(timing: Timing) -> Self {
        let mut world = Self::new(timing);
        for _ in 0..3 {
            world.start(&[NAME, "10.1.2.3"]);
        }
        world.pass(Duration::from_mins(10)).await;
        world.check();
        world
    }

    pub(super) async fn pass(&mut self, duration: Duration) {
        self.clock.advance(duration).await;
        let (now, bundles) = (self.clock.uptime(), self.server.bundles());
        if self.history.last().is_none_or(|(_, last)| *last != bundles) {
            self.history.push((now, bundles));
        }
    }

    /// No client fails, whatever it trusts and whoever answers it.
    pub(super) fn check(&self) {
        let now = self.clock.uptime();
        let current = self.history.last().unwrap();
        // A bundle is in use until `lag` after the next one was published.
        let replaced = self.history.windows(2).filter(|pair| pair[1].0 + self.lag > now).map(|pair| &pair[0]);
        for (_, bundles) in replaced.chain([current]) {
            for bundle in bundles.iter().collect::<BTreeSet<_>>() {
                for (number, replica) in self.replicas.iter().enumerate() {
                    if let Err(error) = accepts(bundle, &replica.identity, NAME, self.clock.now()) {
                        panic!("replica {number} at {}: {error}", self.clock.now());
                    }
                }
            }
        }
    }

    /// Lets time pass in steps, and checks after each.
    pub(super) async fn pass_checking(&mut self, duration: Duration, step: Duration) {
        let (mut left, mut checked) = (duration, None);
        while !left.is_zero() {
            self.pass(step.min(left)).await;
            left = left.saturating_sub(step);
            // What was accepted goes on to be, until something changes or expires.
            let chains: Vec<_> = self.replicas.iter().map(|replica| replica.identity.chain()).collect();
            let tick = self.clock.uptime().as_nanos() / (self.timing.serving.as_nanos() / 30);
            let state = Some((self.history.len(), chains, tick));
            if checked != state {
                self.check();
                checked = state;
            }
        }
    }

    pub(super) fn made(&self, what: super::super::metrics::Made) -> u64 {
        self.replicas.iter().map(|replica| replica.metrics.count(what)).sum()
    }
}

/// Whether a client that trusts `bundle` alone accepts what `identity` shows, under `name` at `now`.
pub(super) fn accepts(bundle: &[u8], identity: &Identity, name: &str, now: Timestamp) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for der in certificates("bundle", bundle).map_err(|error| error.to_string())? {
        roots.add(der).unwrap();
    }
    let chain = identity.chain();
    let (own, others) = chain.split_first().ok_or("no certificate")?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
    let name = ServerName::try_from(name).unwrap();
    let seconds = Duration::from_secs(now.as_second().try_into().unwrap());
    verifier
        .verify_server_cert(own, others, &name, &[], UnixTime::since_unix_epoch(seconds))
        .map(drop)
        .map_err(|error| error.to_string())
}
