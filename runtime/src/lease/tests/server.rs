//! An API server in memory with one Lease, and network links with faults.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::oneshot;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::BoxError;

use crate::env::Env;

#[derive(Clone, Default)]
pub(super) struct LeaseApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    versions: u64,
    /// Verb and status of every request, in order.
    log: Vec<(Method, StatusCode)>,
}

/// The fault of the network link of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LinkFault {
    /// No fault.
    #[default]
    None,
    /// The connection is refused.
    Refused,
    /// Requests do not arrive, without an error.
    Lost,
    /// Requests are handled, and their responses are lost.
    AnswerLost,
    /// Requests arrive late, and are handled even if the client has stopped waiting.
    Late(Duration),
    /// Requests are handled immediately, and their responses arrive late.
    AnswerLate(Duration),
}

/// The network link from a process to the server.
#[derive(Clone, Default)]
pub(super) struct NetworkLink(Arc<Mutex<LinkFault>>);

impl NetworkLink {
    pub(super) fn set(&self, fault: LinkFault) {
        *self.0.lock() = fault;
    }
}

impl LeaseApiServer {
    /// A client that uses `link`. The link uses the tasks of `env`, not of the process.
    pub(super) fn client(&self, link: &NetworkLink, env: &Env) -> Client {
        let (server, link, env) = (self.clone(), link.clone(), env.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (reply, answer) = oneshot::channel();
            let fault = *link.0.lock();
            let journey = server.clone().serve(request, fault, env.clone(), reply);
            // The request continues if the process stops waiting.
            env.spawn("request", journey).detach();
            async move { answer.await.unwrap_or_else(|_| Err("no answer".into())) }
        });
        Client::new(service, "default")
    }

    async fn serve(
        self,
        request: Request<Body>,
        fault: LinkFault,
        env: Env,
        reply: oneshot::Sender<Result<Response<Full<Bytes>>, BoxError>>,
    ) {
        match fault {
            LinkFault::Refused => return drop(reply.send(Err("connection refused".into()))),
            LinkFault::Lost => return futures::future::pending().await,
            LinkFault::Late(delay) => env.sleep(delay).await,
            LinkFault::None | LinkFault::AnswerLost | LinkFault::AnswerLate(_) => {}
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = self.0.lock().answer(&parts.method, &body);
        match fault {
            LinkFault::AnswerLost => return futures::future::pending().await,
            LinkFault::AnswerLate(delay) => env.sleep(delay).await,
            _ => {}
        }
        drop(reply.send(Ok(answer)));
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        self.0.lock().lease.clone()
    }

    pub(super) fn holder(&self) -> Option<String> {
        self.lease()?.spec?.holder_identity
    }

    pub(super) fn delete(&self) {
        self.0.lock().lease = None;
    }

    /// Another client changes the Lease without a version check.
    pub(super) fn overwrite(&self, change: impl FnOnce(&mut Lease)) {
        let mut state = self.0.lock();
        if let Some(mut lease) = state.lease.clone() {
            change(&mut lease);
            state.store(lease);
        }
    }

    pub(super) fn take_log(&self) -> Vec<(Method, StatusCode)> {
        std::mem::take(&mut self.0.lock().log)
    }
}

impl State {
    fn answer(&mut self, method: &Method, body: &[u8]) -> Response<Full<Bytes>> {
        let (status, answer) = match *method {
            Method::GET => match &self.lease {
                Some(lease) => (StatusCode::OK, json!(lease)),
                None => refusal(StatusCode::NOT_FOUND, "NotFound"),
            },
            Method::POST => self.create(serde_json::from_slice(body).unwrap()),
            Method::PUT => self.replace(serde_json::from_slice(body).unwrap()),
            _ => panic!("unexpected method {method}"),
        };
        self.log.push((method.clone(), status));
        Response::builder().status(status).body(Full::from(answer.to_string())).unwrap()
    }

    fn create(&mut self, mut lease: Lease) -> (StatusCode, Value) {
        assert_eq!(
            lease.metadata.resource_version, None,
            "the server refuses a create with a resource version"
        );
        if self.lease.is_some() {
            return refusal(StatusCode::CONFLICT, "AlreadyExists");
        }
        lease.metadata.uid = Some(format!("uid-{}", self.versions));
        self.store(lease)
    }

    fn replace(&mut self, lease: Lease) -> (StatusCode, Value) {
        assert!(lease.metadata.resource_version.is_some(), "unconditional write");
        let Some(stored) = &self.lease else {
            // kube-apiserver creates a missing Lease on a replace without UID.
            assert!(lease.metadata.uid.is_some(), "a replace without UID would create the Lease");
            return refusal(StatusCode::CONFLICT, "Conflict");
        };
        let same = stored.metadata.uid == lease.metadata.uid
            && stored.metadata.resource_version == lease.metadata.resource_version;
        if same { self.store(lease) } else { refusal(StatusCode::CONFLICT, "Conflict") }
    }

    fn store(&mut self, mut lease: Lease) -> (StatusCode, Value) {
        self.versions += 1;
        lease.metadata.resource_version = Some(self.versions.to_string());
        let answer = json!(&lease);
        self.lease = Some(lease);
        (StatusCode::OK, answer)
    }
}

fn refusal(status: StatusCode, reason: &str) -> (StatusCode, Value) {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": reason, "code": status.as_u16() });
    (status, body)
}
