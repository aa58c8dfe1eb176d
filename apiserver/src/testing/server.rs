//! The API server model with faults for the requests of this program.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_model::{ApiError, Call, FaultInjector, Handling, RequestOutcome, Verb};
use vmpool_runtime::Env;

use super::store::FaultyServerStore;
use super::{MERGE_PATCH, NAMESPACE, ROUND_TRIP};

/// The fault of a request.
pub(crate) enum RequestFault {
    /// The server handles the request.
    None,
    /// The server refuses the request. The request has no effect.
    Refuse(u16, &'static str),
    /// The server refuses the request because an admission webhook does not respond. The request has no
    /// effect.
    WebhookDown,
    /// The server handles the request, and the response is lost.
    ResponseLost,
    /// The connection breaks before the request arrives.
    Unreachable,
    /// The connection breaks, and the request arrives later by this duration.
    Late(Duration),
    /// Admission takes this long. The server then handles the request if the client still waits.
    Slow(Duration),
    /// The client is killed before the request arrives.
    KilledBefore,
    /// The client is killed after the server has handled the request, before the response.
    KilledAfter,
}

type Interceptor = Box<dyn FnMut(&Call, &mut FaultyServerStore) -> RequestFault + Send>;

struct State {
    store: FaultyServerStore,
    log: Vec<Call>,
    interceptor: Option<Interceptor>,
    killer: Option<Box<dyn Fn() + Send>>,
    /// The reason with which SubjectAccessReviews are denied.
    denied: Option<String>,
    /// Which SubjectAccessReviews are denied in addition.
    denies: Option<fn(&Value) -> bool>,
}

/// An API server in memory. Clones share its state.
#[derive(Clone)]
pub(crate) struct FaultyApiServer {
    env: Env,
    model: vmpool_model::ApiServerModel,
    state: Arc<Mutex<State>>,
}

impl FaultyApiServer {
    pub(crate) fn new(env: &Env) -> Self {
        let store = FaultyServerStore::new(env);
        let model = store.model.clone();
        let state =
            State { store, log: Vec::new(), interceptor: None, killer: None, denied: None, denies: None };
        let server = Self { env: env.clone(), model, state: Arc::new(Mutex::new(state)) };
        server.model.set_fault_injector(server.clone());
        server
    }

    pub(crate) fn client(&self) -> Client {
        self.model.client("vmpool-apiserver", NAMESPACE)
    }

    /// Reads or changes the objects.
    pub(crate) fn store<T>(&self, work: impl FnOnce(&mut FaultyServerStore) -> T) -> T {
        work(&mut self.state.lock().store)
    }

    /// Calls `interceptor` for each request from now on, before the request arrives. It can also change the
    /// objects.
    pub(crate) fn intercept(
        &self,
        interceptor: impl FnMut(&Call, &mut FaultyServerStore) -> RequestFault + Send + 'static,
    ) {
        self.state.lock().interceptor = Some(Box::new(interceptor));
    }

    /// Handles all requests without faults again.
    pub(crate) fn clear_faults(&self) {
        self.state.lock().interceptor = None;
    }

    /// The function that kills the process for the faults that do so.
    pub(crate) fn on_kill(&self, killer: impl Fn() + Send + 'static) {
        self.state.lock().killer = Some(Box::new(killer));
    }

    /// Denies all requests of callers with this reason, or allows them.
    pub(crate) fn deny(&self, reason: Option<&str>) {
        self.state.lock().denied = reason.map(str::to_owned);
    }

    /// Denies the requests of callers whose SubjectAccessReview has such resource attributes.
    pub(crate) fn deny_where(&self, denies: fn(&Value) -> bool) {
        self.state.lock().denies = Some(denies);
    }

    /// The number of requests since the last [`Server::take_log`].
    pub(crate) fn requests(&self) -> usize {
        self.state.lock().log.len()
    }

    /// The requests since the last call of this function.
    pub(crate) fn take_log(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().log)
    }

    /// Breaks the reference cycle between the server and its referee.
    pub(super) fn shut_down(&self) {
        self.model.shut_down();
    }

    /// Runs `work` right after the server has handled a request that is sent now, or later by this duration.
    fn run_after_response(&self, late: Duration, work: impl Future<Output = ()> + Send + 'static) {
        let env = self.env.clone();
        let waiting = async move {
            env.sleep(ROUND_TRIP / 2 + late).await;
            work.await;
        };
        self.env.spawn("then", waiting).detach();
    }

    /// Kills the client when the request arrives.
    fn kill(&self) {
        let state = self.state.clone();
        self.run_after_response(Duration::ZERO, async move {
            if let Some(killer) = &state.lock().killer {
                killer();
            }
        });
    }
}

impl FaultInjector for FaultyApiServer {
    fn decide(&mut self, call: &Call) -> Handling {
        check_write_preconditions(call);
        let (fault, denied) = {
            let State { store, log, interceptor, denied, denies, .. } = &mut *self.state.lock();
            log.push(call.clone());
            let fault = interceptor.as_mut().map_or(RequestFault::None, |intercept| intercept(call, store));
            let is_denied = denies.is_some_and(|denies| denies(&call.body["spec"]["resourceAttributes"]));
            (fault, denied.clone().or(is_denied.then(String::new)))
        };
        let review = call.resource == "subjectaccessreviews";
        let outcome = match fault {
            RequestFault::None if review => {
                let status = match denied {
                    None => json!({ "allowed": true }),
                    Some(reason) => json!({ "allowed": false, "reason": reason }),
                };
                RequestOutcome::Respond(201, json!({ "status": status }))
            }
            RequestFault::None => RequestOutcome::Serve,
            RequestFault::WebhookDown => {
                let message = "Internal error occurred: failed calling webhook \"pools.webhook.vmpool.dev\": failed to call \
                     webhook: Post \"https://vmpool-webhook.vmpool-system.svc:443/\": dial tcp: connection refused";
                RequestOutcome::Refuse(ApiError::new(500, "InternalError", message))
            }
            RequestFault::Refuse(code, reason) => {
                RequestOutcome::Refuse(ApiError::new(code, reason, format!("refused: {reason}")))
            }
            RequestFault::ResponseLost => RequestOutcome::ResponseLost,
            RequestFault::Unreachable => RequestOutcome::Unreachable,
            RequestFault::Late(delay) => {
                let (model, call) = (self.model.clone(), call.clone());
                self.run_after_response(delay, async move { drop(model.handle(&call).await) });
                RequestOutcome::Unreachable
            }
            RequestFault::Slow(_) => RequestOutcome::ServeIfAwaited,
            RequestFault::KilledBefore => {
                self.kill();
                RequestOutcome::Hang
            }
            RequestFault::KilledAfter => {
                self.kill();
                RequestOutcome::ServeAndHang
            }
        };
        let admission = if let RequestFault::Slow(admission) = fault { admission } else { Duration::ZERO };
        Handling { before: ROUND_TRIP / 2 + admission, outcome, after: ROUND_TRIP / 2 }
    }
}

/// Checks that a write has a UID precondition, and a write to a pool also a resource version.
fn check_write_preconditions(call: &Call) {
    let named = match call.verb {
        Verb::Get | Verb::List | Verb::Create => return,
        Verb::Delete => {
            let policy = call.body["propagationPolicy"].as_str();
            assert!(matches!(policy, Some("Background" | "Foreground")), "{call} without an order");
            &call.body["preconditions"]["uid"]
        }
        verb => {
            assert_eq!(verb, MERGE_PATCH, "the server has no use for {call}");
            assert!(call.body["metadata"]["resourceVersion"].is_string(), "{call} of any version");
            &call.body["metadata"]["uid"]
        }
    };
    assert!(named.is_string(), "{call} of any UID");
}
