//! An API server in memory with the Secret and the objects that call the program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::env::{Clock as _, Env};
use crate::testing::ManualClock;

pub(super) const SECRET: &str = "/api/v1/namespaces/ns/secrets/hook-tls";
pub(super) const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook";
pub(super) const SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com";

/// An API server in memory with three objects.
#[derive(Clone, Default)]
pub(super) struct CertificateApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    versions: u64,
    log: Vec<(Method, String, StatusCode)>,
    down: bool,
    /// Whether responses contain the time.
    silent: bool,
}

impl CertificateApiServer {
    /// A client whose requests take a random time up to `latency`. The time in responses is that of `clock`.
    pub(super) fn client(&self, clock: &ManualClock, env: &Env, latency: Duration) -> Client {
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

    /// The value of `key` in the Secret.
    pub(super) fn secret(&self, key: &str) -> Vec<u8> {
        let data = self.get(SECRET).map(|secret| secret["data"][key].clone()).unwrap_or_default();
        decode(&data)
    }

    /// The bundles in the webhooks and the APIService of the program.
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
            _ => panic!("unexpected method {method}"),
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

/// A configuration with two webhooks of the program and one of another program.
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
