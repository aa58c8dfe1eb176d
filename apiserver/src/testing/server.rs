//! The API server: requests in, answers out, faults where a test wants them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as Answer;
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::BoxError;
use vmpool_runtime::Env;

use super::store::{Key, Store, not_found, refusal};
use super::{NAMESPACE, ROUND_TRIP};

/// A request, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) resource: &'static str,
    pub(crate) name: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

impl Call {
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.method, Method::PATCH | Method::DELETE)
    }
    pub(crate) fn is(&self, method: &Method, resource: &str) -> bool {
        self.method == method && self.resource == resource
    }
    fn key(&self) -> Key {
        (self.resource, self.name.clone())
    }
}

/// What becomes of a request.
pub(crate) enum Fault {
    /// It is served.
    None,
    /// It is refused, without an effect.
    Refuse(u16, &'static str),
    /// It is served, and the connection breaks before the answer arrives.
    AnswerLost,
    /// The connection breaks before it arrives.
    Unreachable,
    /// The connection breaks, and it arrives this much later.
    Late(Duration),
    /// It never arrives, and no answer either: who asked is killed.
    KilledBefore,
    /// It is served, and no answer ever arrives: who asked is killed.
    KilledAfter,
}

type Interceptor = Box<dyn FnMut(&Call, &mut Store) -> Fault + Send>;

#[derive(Default)]
struct State {
    store: Store,
    log: Vec<Call>,
    interceptor: Option<Interceptor>,
    killer: Option<Box<dyn Fn() + Send>>,
    /// What SubjectAccessReviews are answered.
    denied: Option<String>,
}

/// An API server in memory. Clones are the same server.
#[derive(Clone)]
pub(crate) struct Server {
    env: Env,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), state: Arc::default() }
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().serve(request).boxed());
        Client::new(service, NAMESPACE)
    }

    /// Looks at the objects, or changes them.
    pub(crate) fn store<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        work(&mut self.state.lock().store)
    }

    /// Asks `interceptor` about every request from now on.
    pub(crate) fn intercept(&self, interceptor: impl FnMut(&Call, &mut Store) -> Fault + Send + 'static) {
        self.state.lock().interceptor = Some(Box::new(interceptor));
    }

    /// Serves every request again.
    pub(crate) fn behave(&self) {
        self.state.lock().interceptor = None;
    }

    /// What kills the process when a fault says so.
    pub(crate) fn on_kill(&self, killer: impl Fn() + Send + 'static) {
        self.state.lock().killer = Some(Box::new(killer));
    }

    /// Callers may do nothing, for this reason.
    pub(crate) fn deny(&self, reason: Option<&str>) {
        self.state.lock().denied = reason.map(str::to_owned);
    }

    /// How many requests have arrived since the last [`Server::take_log`].
    pub(crate) fn requests(&self) -> usize {
        self.state.lock().log.len()
    }

    /// The requests since the last call.
    pub(crate) fn take_log(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().log)
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let call = understand(&parts, &body);
        self.env.sleep(ROUND_TRIP / 2).await;
        let fault = {
            let state = &mut *self.state.lock();
            state.log.push(call.clone());
            let State { store, interceptor, .. } = state;
            interceptor.as_mut().map_or(Fault::None, |intercept| intercept(&call, store))
        };
        let answer = match fault {
            Fault::None => Ok(self.answer(&call)),
            Fault::Refuse(code, reason) => {
                Ok(refusal(StatusCode::from_u16(code).unwrap(), reason, &format!("refused: {reason}")))
            }
            Fault::Unreachable => Err("connection refused".into()),
            Fault::AnswerLost => {
                self.answer(&call);
                Err("connection reset by peer".into())
            }
            Fault::Late(delay) => {
                let server = self.clone();
                self.env
                    .spawn("late", async move {
                        server.env.sleep(delay).await;
                        server.answer(&call);
                    })
                    .detach();
                Err("connection reset by peer".into())
            }
            Fault::KilledBefore => self.kill().await,
            Fault::KilledAfter => {
                self.answer(&call);
                self.kill().await
            }
        };
        self.env.sleep(ROUND_TRIP / 2).await;
        answer.map(|(status, body)| {
            Response::builder().status(status).body(Answer::from(body.to_string())).unwrap()
        })
    }

    async fn kill(&self) -> Result<(StatusCode, Value), BoxError> {
        if let Some(killer) = &self.state.lock().killer {
            killer();
        }
        std::future::pending().await
    }

    fn answer(&self, call: &Call) -> (StatusCode, Value) {
        let state = &mut *self.state.lock();
        let store = &mut state.store;
        match (&call.method, call.resource) {
            (&Method::POST, "subjectaccessreviews") => {
                let status = match &state.denied {
                    None => json!({ "allowed": true }),
                    Some(reason) => json!({ "allowed": false, "reason": reason }),
                };
                (StatusCode::CREATED, json!({ "status": status }))
            }
            (&Method::GET, _) => match store.objects.get(&call.key()) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => not_found(&call.key()),
            },
            (&Method::PATCH, _) => store.merge(&call.key(), &call.body),
            (&Method::DELETE, _) => {
                assert_eq!(call.body["propagationPolicy"], "Background");
                store.delete(&call.key(), Some(call.body["preconditions"]["uid"].as_str().unwrap()))
            }
            (method, resource) => panic!("the server has no use for {method} of {resource}"),
        }
    }
}

fn understand(parts: &http::request::Parts, body: &[u8]) -> Call {
    let path: Vec<&str> = parts.uri.path().split('/').collect();
    let known = ["virtualmachinepools", "virtualmachines", "subjectaccessreviews", "configmaps"];
    let position = path.iter().rposition(|part| known.contains(part)).unwrap();
    let resource = known.into_iter().find(|resource| *resource == path[position]).unwrap();
    if parts.method == Method::PATCH {
        assert_eq!(parts.headers[header::CONTENT_TYPE], "application/merge-patch+json");
    }
    Call {
        method: parts.method.clone(),
        resource,
        name: path.get(position + 1).copied().unwrap_or_default().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(body).unwrap_or_default(),
    }
}
