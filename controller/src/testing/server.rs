//! The API server: requests in, answers and watch events out, faults where a test wants them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{FutureExt, StreamExt};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, Layer};
use vmpool_runtime::Env;

use super::requests::{Call, Verb};
use super::store::{Answer, Change, Key, Store};
use crate::metrics::RequestLayer;

pub(crate) use super::store::refusal;

/// What becomes of a request.
pub(crate) enum Fault {
    /// It is served.
    None,
    /// It is refused, without an effect.
    Refuse(Answer),
    /// It is served, and the connection breaks before the answer arrives.
    AnswerLost,
    /// The connection breaks before it arrives.
    Unreachable,
    /// It is served, and the answer takes this long.
    Slow(Duration),
    /// It is served after this was done.
    After(Box<dyn FnOnce() + Send>),
}

type Interceptor = Box<dyn FnMut(&Call) -> Fault + Send>;
type ServerBody = UnsyncBoxBody<Bytes, BoxError>;

/// An API server in memory. Clones are the same server.
#[derive(Clone)]
pub(crate) struct Server {
    env: Env,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    store: Store,
    watches: Vec<Watch>,
    /// Resources whose watches are told nothing, and what they miss.
    held: BTreeSet<String>,
    backlog: Vec<Change>,
    log: Vec<Call>,
    interceptor: Option<Interceptor>,
    in_flight: usize,
    most_in_flight: usize,
}

struct Watch {
    resource: String,
    namespace: String,
    events: UnboundedSender<Bytes>,
}

impl Server {
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), state: Arc::default() }
    }

    /// A client of this server.
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().serve(request).boxed());
        Client::new(service, super::NAMESPACE)
    }

    /// A client of this server whose requests pass through `layer`.
    pub(crate) fn client_through(&self, layer: &RequestLayer) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().serve(request).boxed());
        Client::new(layer.layer(service), super::NAMESPACE)
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<ServerBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let call = Call::parse(&parts, &body);
        let fault = {
            let state = &mut *self.state.lock();
            state.log.push(call.clone());
            if call.verb == Verb::Watch {
                return Ok(state.watch(&call));
            }
            state.in_flight += 1;
            state.most_in_flight = state.most_in_flight.max(state.in_flight);
            state.interceptor.as_mut().map_or(Fault::None, |intercept| intercept(&call))
        };
        // Others get a chance to arrive meanwhile, as they would on a real way.
        self.env.spawn("turn", async {}).join().await?;
        let answer = match fault {
            Fault::Refuse(answer) => Ok(answer),
            Fault::Unreachable => Err("connection refused".into()),
            Fault::None => Ok(self.answer(&call)),
            Fault::AnswerLost => {
                self.answer(&call);
                Err("connection reset by peer".into())
            }
            Fault::After(event) => {
                event();
                Ok(self.answer(&call))
            }
            Fault::Slow(delay) => {
                let answer = self.answer(&call);
                self.env.sleep(delay).await;
                Ok(answer)
            }
        };
        self.state.lock().in_flight -= 1;
        answer.map(|(status, body)| {
            let mut response = Response::builder().status(status);
            if let Some(seconds) = body["details"]["retryAfterSeconds"].as_u64() {
                response = response.header(http::header::RETRY_AFTER, seconds);
            }
            response.body(Full::from(body.to_string()).map_err(BoxError::from).boxed_unsync()).unwrap()
        })
    }

    fn answer(&self, call: &Call) -> Answer {
        let now = self.env.now();
        let state = &mut *self.state.lock();
        let store = &mut state.store;
        let key = (call.resource.clone(), call.namespace.clone(), call.name.clone());
        let answer = match call.verb {
            Verb::List => store.list(&call.resource, &call.namespace),
            Verb::Get => store.get(&key),
            Verb::Create => store.create(key, call.body.clone(), now),
            Verb::MergePatch | Verb::JsonPatch => store.patch(&key, call),
            Verb::Delete => store.delete(&key, &call.body["preconditions"], now),
            Verb::Watch => unreachable!("a watch has its own answer"),
        };
        state.publish();
        answer
    }

    /// Asks `interceptor` about every request but watches from now on.
    pub(crate) fn intercept(&self, interceptor: impl FnMut(&Call) -> Fault + Send + 'static) {
        self.state.lock().interceptor = Some(Box::new(interceptor));
    }

    /// Serves every request again.
    pub(crate) fn behave(&self) {
        self.state.lock().interceptor = None;
    }

    /// Watches of `resource` lag behind until [`Server::release`].
    pub(crate) fn hold(&self, resource: &str) {
        self.state.lock().held.insert(resource.to_owned());
    }

    /// All watches catch up.
    pub(crate) fn release(&self) {
        let state = &mut *self.state.lock();
        state.held.clear();
        let mut missed = std::mem::take(&mut state.backlog);
        missed.append(&mut state.store.changes);
        state.store.changes = missed;
        state.publish();
    }

    /// The requests since the last call, in order.
    pub(crate) fn take_log(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().log)
    }

    /// How many requests have arrived since the last [`Server::take_log`].
    pub(crate) fn requests(&self) -> usize {
        self.state.lock().log.len()
    }

    /// The most requests that were served at a time.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.state.lock().most_in_flight
    }

    /// Somebody else creates an object.
    pub(crate) fn create(&self, resource: &str, object: Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(super::NAMESPACE).to_owned();
        let state = &mut *self.state.lock();
        let (status, answer) =
            state.store.create((resource.to_owned(), namespace, name), object, self.env.now());
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        state.publish();
        answer
    }

    /// Somebody else changes an object, status or not.
    pub(crate) fn edit(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let key = (resource.to_owned(), super::NAMESPACE.to_owned(), name.to_owned());
        let state = &mut *self.state.lock();
        let old = state.store.objects.get(&key).unwrap_or_else(|| panic!("there is no {name}")).clone();
        let mut new = old.clone();
        change(&mut new);
        state.store.replace(&key, &old, new);
        state.publish();
    }

    /// Somebody else deletes an object.
    pub(crate) fn delete(&self, resource: &str, name: &str) {
        let key = (resource.to_owned(), super::NAMESPACE.to_owned(), name.to_owned());
        let state = &mut *self.state.lock();
        state.store.delete(&key, &Value::Null, self.env.now());
        state.publish();
    }

    /// The garbage collector comes by.
    pub(crate) fn collect_garbage(&self) {
        let state = &mut *self.state.lock();
        state.store.collect_garbage();
        state.publish();
    }

    /// The object of this name.
    pub(crate) fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let key = (resource.to_owned(), super::NAMESPACE.to_owned(), name.to_owned());
        self.state.lock().store.objects.get(&key).cloned()
    }

    /// All objects of a resource, in the order of their names.
    pub(crate) fn all(&self, resource: &str) -> Vec<Value> {
        let of_resource = |(key, _): &(&Key, &Value)| key.0 == resource;
        self.state.lock().store.objects.iter().filter(of_resource).map(|(_, object)| object.clone()).collect()
    }
}

impl State {
    fn watch(&mut self, call: &Call) -> Response<ServerBody> {
        let (events, receiver) = unbounded::<Bytes>();
        let (resource, namespace) = (call.resource.clone(), call.namespace.clone());
        self.watches.push(Watch { resource, namespace, events });
        let frames = receiver.map(|line| Ok::<_, BoxError>(Frame::data(line)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    /// Tells the watches what changed.
    fn publish(&mut self) {
        for change in std::mem::take(&mut self.store.changes) {
            if self.held.contains(&change.resource) {
                self.backlog.push(change);
                continue;
            }
            let line = format!("{}\n", json!({ "type": change.kind, "object": change.object }));
            self.watches.retain(|watch| {
                let concerned = watch.resource == change.resource
                    && (watch.namespace.is_empty() || watch.namespace == change.namespace);
                // A watch whose client is gone ends here.
                !concerned || watch.events.unbounded_send(line.clone().into()).is_ok()
            });
        }
    }
}
