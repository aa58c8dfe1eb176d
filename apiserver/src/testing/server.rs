//! The model of the API server, with what can happen to requests of this program.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use vmpool_model::{ApiError, Call, FaultInjector, Handling, Outcome, Verb};
use vmpool_runtime::Env;

use super::store::Store;
use super::{MERGE_PATCH, NAMESPACE, ROUND_TRIP};

/// What becomes of a request.
pub(crate) enum Fault {
    /// It is served.
    None,
    /// It is refused, without an effect.
    Refuse(u16, &'static str),
    /// It is refused, without an effect, because an admission webhook does not answer.
    WebhookDown,
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
    model: vmpool_model::Server,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn new(env: &Env) -> Self {
        let store = Store::new(env);
        let model = store.model.clone();
        let state = State { store, log: Vec::new(), interceptor: None, killer: None, denied: None };
        let server = Self { env: env.clone(), model, state: Arc::new(Mutex::new(state)) };
        server.model.set_fault_injector(server.clone());
        server
    }

    pub(crate) fn client(&self) -> Client {
        self.model.client("vmpool-apiserver", NAMESPACE)
    }

    /// Looks at the objects, or changes them.
    pub(crate) fn store<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        work(&mut self.state.lock().store)
    }

    /// Asks `interceptor` about every request from now on. What it does to the objects is done before the request
    /// arrives.
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

    /// How many requests were sent since the last [`Server::take_log`].
    pub(crate) fn requests(&self) -> usize {
        self.state.lock().log.len()
    }

    /// The requests since the last call.
    pub(crate) fn take_log(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().log)
    }

    /// The server knows itself, by its referee: nothing else lets go of it.
    pub(super) fn shut_down(&self) {
        self.model.shut_down();
    }

    /// Does `work` when a request arrives that is sent now, or this much later, right after it was served.
    fn then(&self, late: Duration, work: impl Future<Output = ()> + Send + 'static) {
        let env = self.env.clone();
        let waiting = async move {
            env.sleep(ROUND_TRIP / 2 + late).await;
            work.await;
        };
        self.env.spawn("then", waiting).detach();
    }

    /// Kills who asked when the request has arrived.
    fn kill(&self) {
        let state = self.state.clone();
        self.then(Duration::ZERO, async move {
            if let Some(killer) = &state.lock().killer {
                killer();
            }
        });
    }
}

impl FaultInjector for Server {
    fn decide(&mut self, call: &Call) -> Handling {
        check(call);
        let (fault, denied) = {
            let State { store, log, interceptor, denied, .. } = &mut *self.state.lock();
            log.push(call.clone());
            let fault = interceptor.as_mut().map_or(Fault::None, |intercept| intercept(call, store));
            (fault, denied.clone())
        };
        let review = call.resource == "subjectaccessreviews";
        let outcome = match fault {
            Fault::None if review => {
                let status = match denied {
                    None => json!({ "allowed": true }),
                    Some(reason) => json!({ "allowed": false, "reason": reason }),
                };
                Outcome::Respond(201, json!({ "status": status }))
            }
            Fault::None => Outcome::Serve,
            Fault::WebhookDown => {
                let message = "Internal error occurred: failed calling webhook \"pools.webhook.vmpool.dev\": failed to call \
                     webhook: Post \"https://vmpool-webhook.vmpool-system.svc:443/\": dial tcp: connection refused";
                Outcome::Refuse(ApiError::new(500, "InternalError", message))
            }
            Fault::Refuse(code, reason) => {
                Outcome::Refuse(ApiError::new(code, reason, format!("refused: {reason}")))
            }
            Fault::AnswerLost => Outcome::ResponseLost,
            Fault::Unreachable => Outcome::Unreachable,
            Fault::Late(delay) => {
                let (model, call) = (self.model.clone(), call.clone());
                self.then(delay, async move { drop(model.handle(&call).await) });
                Outcome::Unreachable
            }
            Fault::KilledBefore => {
                self.kill();
                Outcome::Hang
            }
            Fault::KilledAfter => {
                self.kill();
                Outcome::ServeAndHang
            }
        };
        Handling { before: ROUND_TRIP / 2, outcome, after: ROUND_TRIP / 2 }
    }
}

/// Whether a write says which object it means: of a pool in which version.
fn check(call: &Call) {
    let named = match call.verb {
        Verb::Get | Verb::Create => return,
        Verb::Delete => {
            assert_eq!(call.body["propagationPolicy"], "Background");
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
