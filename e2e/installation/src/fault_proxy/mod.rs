//! The fault proxy between a program and the API server. It counts requests, drops requests or their
//! responses, and changes what watches deliver, as faults of a network or of an API server would.
//!
//! The program gets a kubeconfig that points to the proxy, without TLS; the proxy forwards requests with the
//! program's own account. A scenario can kill a process exactly before or after the k-th of its writes
//! ([`FaultProxy::trap`]), and can let it act on a state that is k events old
//! ([`FaultProxy::set_watch_fault`]).

mod watch_fault;
mod watch_stream;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode, header};
use kube::Client;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

pub use watch_fault::WatchFault;

use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::{Error, Result};

use self::watch_fault::WatchFaults;

/// How long a trap may wait for its request.
const DEADLINE: Duration = Duration::from_mins(1);

/// Whether the API server receives the trapped request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropPoint {
    /// The request does not reach the API server.
    Before,
    /// The API server handles the request, and the response is dropped.
    After,
}

impl DropPoint {
    /// Both moments.
    pub const BOTH: [Self; 2] = [Self::Before, Self::After];
}

/// The parts of a request that traps can match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// The method, such as `POST` or `GET`.
    pub method: Method,
    /// Path and query.
    pub path: String,
}

impl RequestLine {
    /// Whether the request is a write.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET && self.method != Method::HEAD
    }

    /// Path and query.
    fn split(&self) -> (&str, &str) {
        self.path.split_once('?').unwrap_or((&self.path, ""))
    }

    /// The watched resource, if the request is a watch.
    fn watched(&self) -> Option<&str> {
        let (path, query) = self.split();
        let watches = query.split('&').any(|part| part == "watch=true" || part == "watch=1");
        watches.then(|| path.rsplit('/').next().unwrap_or_default())
    }

    /// The listed resource, if the path ends in one.
    fn listed(&self) -> Option<&str> {
        let is_list = !self.is_write() && self.watched().is_none();
        is_list.then(|| self.split().0.rsplit('/').next().unwrap_or_default())
    }
}

impl std::fmt::Display for RequestLine {
    /// Without the query, which varies little.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.split().0)
    }
}

/// Selects the requests that count.
type Filter = Box<dyn Fn(&RequestLine) -> bool + Send>;

/// Runs when the trap is triggered.
type Action = Box<dyn FnOnce() + Send>;

struct Trap {
    filter: Filter,
    /// Number of matching requests that still pass.
    skip: usize,
    drop_point: DropPoint,
    action: Action,
}

/// A request that waits at the proxy.
struct Hold {
    filter: Filter,
    arrived: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

#[derive(Default)]
struct State {
    trap: Option<Trap>,
    hold: Option<Hold>,
    /// All requests since the last [`FaultProxy::clear_requests`].
    requests: Vec<RequestLine>,
}

/// State shared by all requests.
#[derive(Clone)]
struct Shared {
    client: Client,
    state: Arc<Mutex<State>>,
    faults: watch::Sender<WatchFaults>,
}

/// The fault proxy. Dropping it closes all connections through it.
pub struct FaultProxy {
    port: u16,
    state: Arc<Mutex<State>>,
    faults: watch::Sender<WatchFaults>,
    _task: AbortOnDropHandle<()>,
}

impl FaultProxy {
    /// Starts the proxy for one account.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::Api`] if the account does not exist.
    pub async fn open(cluster: &ControlPlane, namespace: &str, account: &str) -> Result<Self> {
        let client = cluster.service_account_client(namespace, account).await?;
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|source| Error::Port { source })?;
        let port = listener.local_addr().map_err(|source| Error::Port { source })?.port();
        let (state, (faults, _)) =
            (Arc::new(Mutex::new(State::default())), watch::channel(WatchFaults::default()));
        let shared = Shared { client, state: state.clone(), faults: faults.clone() };
        let router = axum::Router::new().fallback(move |request: Request| pass(shared, request));
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            // `serve` returns only when the task is aborted.
            let _ = axum::serve(listener, router).await;
        }));
        Ok(Self { port, state, faults, _task: task })
    }

    /// The kubeconfig for a program whose requests go through the proxy.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn kubeconfig(&self, cluster: &ControlPlane) -> Result<PathBuf> {
        // A cluster can have several proxies.
        let name = format!("fault-proxy-{}", self.port);
        cluster.bare_kubeconfig(&name, &format!("http://127.0.0.1:{}", self.port))
    }

    /// Lets `skip` matching requests through, and runs the action at the next one, before or after the API
    /// server handles it. That request gets no response. This replaces an earlier trap.
    pub fn trap<T: Send + 'static>(
        &self,
        filter: impl Fn(&RequestLine) -> bool + Send + 'static,
        skip: usize,
        drop_point: DropPoint,
        action: impl FnOnce() -> T + Send + 'static,
    ) -> Triggered<T> {
        let (sender, watch) = oneshot::channel();
        let action: Action = Box::new(move || {
            // The result may not be needed.
            _ = sender.send(action());
        });
        self.state.lock().trap = Some(Trap { filter: Box::new(filter), skip, drop_point, action });
        Triggered(watch)
    }

    /// Holds the next matching request until the result is dropped. The API server then receives it, and the
    /// client gets the response. This replaces an earlier hold.
    pub fn hold(&self, filter: impl Fn(&RequestLine) -> bool + Send + 'static) -> Held {
        let ((arrived, arrival), (release, go)) = (oneshot::channel(), oneshot::channel());
        self.state.lock().hold = Some(Hold { filter: Box::new(filter), arrived, go });
        Held { arrival, _release: release }
    }

    /// Removes the trap. Returns whether it was still set.
    pub fn disarm(&self) -> bool {
        self.state.lock().trap.take().is_some()
    }

    /// All requests since the last [`FaultProxy::clear_requests`], in the order of arrival.
    pub fn requests(&self) -> Vec<RequestLine> {
        self.state.lock().requests.clone()
    }

    /// Clears the list of requests.
    pub fn clear_requests(&self) {
        self.state.lock().requests.clear();
    }

    /// Sets what watches of these resources (such as `virtualmachines`) deliver from now on, including open
    /// ones. Watches of other resources do not change.
    pub fn set_watch_fault(&self, resources: &[&str], fault: WatchFault) {
        self.faults.send_modify(|faults| resources.iter().for_each(|resource| faults.set(resource, fault)));
    }

    /// Lets all watches deliver everything again, starting with the held events. A watch that has lost events
    /// receives 410, as from the API server, so that its client lists again. A refused watch stays refused
    /// until then.
    pub fn release(&self) {
        self.faults.send_modify(WatchFaults::release);
    }

    /// Whether watches of this resource are still refused because no client has listed it.
    pub fn refuses(&self, resource: &str) -> bool {
        self.faults.borrow().refuses(resource)
    }
}

/// A request that the proxy holds, or will hold. Dropping it releases the request.
#[derive(Debug)]
pub struct Held {
    arrival: oneshot::Receiver<()>,
    _release: oneshot::Sender<()>,
}

impl Held {
    /// Waits until the proxy holds a request.
    ///
    /// # Errors
    /// [`Error::Deadline`] if no matching request arrives, [`Error::TaskEnded`] if another hold replaced this
    /// one.
    pub async fn arrived(&mut self) -> Result<()> {
        within_deadline(&mut self.arrival, "a request is held").await
    }
}

/// The pending result of a trap.
#[derive(Debug)]
pub struct Triggered<T>(oneshot::Receiver<T>);

impl<T> Triggered<T> {
    /// Waits until the trap is triggered, and returns the result of its action.
    ///
    /// # Errors
    /// [`Error::Deadline`] if no matching request arrives, [`Error::TaskEnded`] if the trap was removed.
    pub async fn done(self) -> Result<T> {
        within_deadline(self.0, "a request matches the trap").await
    }
}

async fn within_deadline<T>(received: impl Future<Output = Result<T, RecvError>>, what: &str) -> Result<T> {
    match Deadline::after(DEADLINE).within(received).await {
        Ok(done) => done.map_err(|_| Error::TaskEnded { task: "the trap" }),
        Err(after) => Err(Error::Deadline { what: what.to_owned(), after, last: String::new() }),
    }
}

impl State {
    /// The trap, if this request triggers it.
    fn triggered(&mut self, request_line: &RequestLine) -> Option<Trap> {
        self.requests.push(request_line.clone());
        let trap = self.trap.as_mut().filter(|trap| (trap.filter)(request_line))?;
        if trap.skip == 0 {
            return self.trap.take();
        }
        trap.skip -= 1;
        None
    }

    /// The hold, if this is its request.
    fn held(&mut self, request_line: &RequestLine) -> Option<Hold> {
        self.hold.take_if(|hold| (hold.filter)(request_line))
    }
}

async fn pass(shared: Shared, request: Request) -> Result<Response, Infallible> {
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    let request_line = RequestLine { method: request.method().clone(), path };
    let (held, triggered) = {
        let mut state = shared.state.lock();
        (state.held(&request_line), state.triggered(&request_line))
    };
    // A request that reaches this point is handled, even if its client disconnects.
    let Some(Trap { drop_point, action, .. }) = triggered else {
        let forwarded = tokio::spawn(async move {
            if let Some(Hold { arrived, go, .. }) = held {
                // The test may no longer wait for it.
                _ = arrived.send(());
                // It ends when [`Held`] is dropped.
                _ = go.await;
            }
            forward(shared, request_line, request).await
        })
        .await;
        return Ok(forwarded.unwrap_or_else(|error| broken(&error.to_string())));
    };
    tokio::spawn(async move {
        if drop_point == DropPoint::After {
            let response = forward(shared, request_line.clone(), request).await;
            tracing::debug!(%request_line, status = %response.status(), "handled, and the response dropped");
        }
        action();
    });
    // The client gets no response.
    std::future::pending().await
}

async fn forward(shared: Shared, request_line: RequestLine, request: Request) -> Response {
    let Shared { client, faults, .. } = shared;
    if let Some(resource) = request_line.watched()
        && faults.borrow().refuses(resource)
    {
        return too_old();
    }
    if let Some(resource) = request_line.listed() {
        faults.send_if_modified(|faults| faults.listed(resource));
    }
    let (mut parts, body) = request.into_parts();
    // The host name and the token must be those for the API server.
    parts.headers.remove(header::HOST);
    parts.headers.remove(header::CONNECTION);
    if let Ok(uri) = request_line.path.parse() {
        parts.uri = uri;
    }
    let sent = async {
        let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|error| error.to_string())?;
        let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
        client.send(request).await.map_err(|error| error.to_string())
    };
    match sent.await {
        Ok(response) => {
            let (mut parts, body) = response.into_parts();
            // These headers concern only the connection to the API server.
            parts.headers.remove(header::CONNECTION);
            parts.headers.remove(header::TRANSFER_ENCODING);
            let body = Body::new(body);
            let body = match request_line.watched().filter(|_| parts.status.is_success()) {
                Some(resource) => watch_stream::body_with_faults(body, resource, faults),
                None => body,
            };
            Response::from_parts(parts, body)
        }
        Err(error) => broken(&error),
    }
}

fn broken(why: &str) -> Response {
    let mut response = Response::new(Body::from(why.to_owned()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

/// The response to a watch that starts before the remembered history.
fn too_old() -> Response {
    let mut response = Response::new(Body::from(watch_fault::expired_watch_status().to_string()));
    *response.status_mut() = StatusCode::GONE;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
