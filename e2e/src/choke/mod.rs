//! A place between one of our programs and the API server where requests can be counted, held up and never answered,
//! and where watches see what the faults of a network and of an API server would let them see.
//!
//! The program gets a kubeconfig that leads here without TLS; what is forwarded goes under the program's own account.
//! So a scenario can let a process die exactly before or after the k-th of its writes, without luck ([`Choke::trap`]),
//! and can let it act on the world of k events ago ([`Choke::show`]).

mod passage;
mod view;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode, header};
use kube::Client;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

pub use view::View;

use self::view::Views;
use crate::cluster::Cluster;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::world::DEADLINE;

/// Whether the API server gets to see the request at which it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The request never arrives.
    Before,
    /// The request is carried out, and its answer never arrives.
    After,
}

impl Moment {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Before, Self::After];
}

/// A request, as far as a trap can tell it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `POST`, `GET` ...
    pub method: Method,
    /// Path and query.
    pub path: String,
}

impl Asked {
    /// Whether it asks for a change.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET && self.method != Method::HEAD
    }

    /// Path and query.
    fn split(&self) -> (&str, &str) {
        self.path.split_once('?').unwrap_or((&self.path, ""))
    }

    /// The resource whose changes it wants to be told.
    fn watched(&self) -> Option<&str> {
        let (path, query) = self.split();
        let watches = query.split('&').any(|part| part == "watch=true" || part == "watch=1");
        watches.then(|| path.rsplit('/').next().unwrap_or_default())
    }

    /// The resource of which it wants a list, if its path ends in one.
    fn listed(&self) -> Option<&str> {
        let is_list = !self.is_write() && self.watched().is_none();
        is_list.then(|| self.split().0.rsplit('/').next().unwrap_or_default())
    }
}

impl std::fmt::Display for Asked {
    /// Without the query, which is the same for all.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.split().0)
    }
}

/// Which requests count.
type Filter = Box<dyn Fn(&Asked) -> bool + Send>;

/// What happens at the request that was waited for.
type Action = Box<dyn FnOnce() + Send>;

struct Trap {
    filter: Filter,
    /// Requests that still pass.
    passing: usize,
    moment: Moment,
    action: Action,
}

#[derive(Default)]
struct State {
    trap: Option<Trap>,
    /// Everything that was asked for since the last [`Choke::forget`].
    seen: Vec<Asked>,
}

/// What requests on their way through share.
#[derive(Clone)]
struct Shared {
    client: Client,
    state: Arc<Mutex<State>>,
    views: watch::Sender<Views>,
}

/// The place itself. Dropping it breaks all connections that go through it.
pub struct Choke {
    port: u16,
    state: Arc<Mutex<State>>,
    views: watch::Sender<Views>,
    _task: AbortOnDropHandle<()>,
}

impl Choke {
    /// Opens the way for one account.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::Api`] if there is no such account.
    pub async fn open(cluster: &Cluster, namespace: &str, account: &str) -> Result<Self> {
        let client = cluster.service_account_client(namespace, account).await?;
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|source| Error::Port { source })?;
        let port = listener.local_addr().map_err(|source| Error::Port { source })?.port();
        let (state, (views, _)) = (Arc::new(Mutex::new(State::default())), watch::channel(Views::default()));
        let shared = Shared { client, state: state.clone(), views: views.clone() };
        let router = axum::Router::new().fallback(move |request: Request| pass(shared, request));
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            // Serving on a listener of ours ends only with the task.
            let _ = axum::serve(listener, router).await;
        }));
        Ok(Self { port, state, views, _task: task })
    }

    /// The kubeconfig of a program whose requests shall go through here.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn kubeconfig(&self, cluster: &Cluster) -> Result<PathBuf> {
        cluster.bare_kubeconfig("choke", &format!("http://127.0.0.1:{}", self.port))
    }

    /// Lets `passing` requests of a kind through, and acts at the next one: before or after the API server sees it.
    /// That one is never answered. A trap that was set before is gone.
    pub fn trap<T: Send + 'static>(
        &self,
        filter: impl Fn(&Asked) -> bool + Send + 'static,
        passing: usize,
        moment: Moment,
        action: impl FnOnce() -> T + Send + 'static,
    ) -> Sprung<T> {
        let (tell, told) = oneshot::channel();
        let action: Action = Box::new(move || {
            // Whoever set it may not want to know.
            _ = tell.send(action());
        });
        self.state.lock().trap = Some(Trap { filter: Box::new(filter), passing, moment, action });
        Sprung(told)
    }

    /// Takes a trap away; whether it was still set.
    pub fn disarm(&self) -> bool {
        self.state.lock().trap.take().is_some()
    }

    /// Everything that was asked for since the last [`Choke::forget`], in the order of arrival.
    pub fn seen(&self) -> Vec<Asked> {
        self.state.lock().seen.clone()
    }

    /// Begins to count anew.
    pub fn forget(&self) {
        self.state.lock().seen.clear();
    }

    /// What watches of these resources (`virtualmachines` ...) see from now on, those that are open, too. Watches of
    /// others go on as before.
    pub fn show(&self, resources: &[&str], view: View) {
        self.views.send_modify(|views| resources.iter().for_each(|resource| views.set(resource, view)));
    }

    /// All watches see everything again, what was held back first. Whoever has missed something is told so, as the API
    /// server would, and lists anew; whoever is refused stays so until then.
    pub fn release(&self) {
        self.views.send_modify(Views::release);
    }

    /// Whether watches of this resource are still refused, because nobody has listed it.
    pub fn refuses(&self, resource: &str) -> bool {
        self.views.borrow().refuses(resource)
    }
}

/// A trap that may spring.
#[derive(Debug)]
pub struct Sprung<T>(oneshot::Receiver<T>);

impl<T> Sprung<T> {
    /// Waits until it has sprung, and returns what its action came to.
    ///
    /// # Errors
    /// [`Error::Deadline`] if its request does not come, [`Error::TaskEnded`] if it was taken away.
    pub async fn done(self) -> Result<T> {
        match Deadline::after(DEADLINE).within(self.0).await {
            Ok(done) => done.map_err(|_| Error::TaskEnded { task: "the trap" }),
            Err(elapsed) => {
                let what = "the request that a trap waits for comes".to_owned();
                Err(Error::Deadline { what, after: elapsed, last: String::new() })
            }
        }
    }
}

impl State {
    /// The trap, if this is the request that it waits for.
    fn sprung(&mut self, asked: &Asked) -> Option<Trap> {
        self.seen.push(asked.clone());
        let trap = self.trap.as_mut().filter(|trap| (trap.filter)(asked))?;
        if trap.passing == 0 {
            return self.trap.take();
        }
        trap.passing -= 1;
        None
    }
}

async fn pass(shared: Shared, request: Request) -> Result<Response, Infallible> {
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    let asked = Asked { method: request.method().clone(), path };
    let sprung = shared.state.lock().sprung(&asked);
    // What has come this far is carried out, even if whoever asked dies or gives up meanwhile.
    let Some(Trap { moment, action, .. }) = sprung else {
        let forwarded = tokio::spawn(forward(shared, asked, request)).await;
        return Ok(forwarded.unwrap_or_else(|error| broken(&error.to_string())));
    };
    tokio::spawn(async move {
        if moment == Moment::After {
            let response = forward(shared, asked.clone(), request).await;
            tracing::debug!(%asked, status = %response.status(), "carried out, and not answered");
        }
        action();
    });
    // Whoever asked is gone, or waits in vain.
    std::future::pending().await
}

async fn forward(shared: Shared, asked: Asked, request: Request) -> Response {
    let Shared { client, views, .. } = shared;
    if let Some(resource) = asked.watched()
        && views.borrow().refuses(resource)
    {
        return too_old();
    }
    if let Some(resource) = asked.listed() {
        views.send_if_modified(|views| views.lists(resource));
    }
    let (mut parts, body) = request.into_parts();
    // The API server's own name, and an account's own token.
    parts.headers.remove(header::HOST);
    parts.headers.remove(header::CONNECTION);
    if let Ok(uri) = asked.path.parse() {
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
            // They are about the connection behind us.
            parts.headers.remove(header::CONNECTION);
            parts.headers.remove(header::TRANSFER_ENCODING);
            let body = Body::new(body);
            let body = match asked.watched().filter(|_| parts.status.is_success()) {
                Some(resource) => passage::through(body, resource, views),
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

/// The answer to a watch that would begin before what the server remembers.
fn too_old() -> Response {
    let mut response = Response::new(Body::from(view::expired().to_string()));
    *response.status_mut() = StatusCode::GONE;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
