//! A place between one of our programs and the API server where requests can be counted, held up and never answered.
//!
//! The program gets a kubeconfig that leads here without TLS; what is forwarded goes under the program's own account.
//! So a scenario can let a process die exactly before or after the k-th of its writes, without luck.

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
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::error::{Error, Result};

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

/// The place itself. Dropping it breaks all connections that go through it.
pub struct Choke {
    port: u16,
    state: Arc<Mutex<State>>,
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
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let router = axum::Router::new().fallback(move |request: Request| pass(client, shared, request));
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            // Serving on a listener of ours ends only with the task.
            let _ = axum::serve(listener, router).await;
        }));
        Ok(Self { port, state, _task: task })
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
    pub fn trap(
        &self,
        filter: impl Fn(&Asked) -> bool + Send + 'static,
        passing: usize,
        moment: Moment,
        action: impl FnOnce() + Send + 'static,
    ) {
        let trap = Trap { filter: Box::new(filter), passing, moment, action: Box::new(action) };
        self.state.lock().trap = Some(trap);
    }

    /// Whether a trap still waits for its request.
    pub fn is_set(&self) -> bool {
        self.state.lock().trap.is_some()
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

async fn pass(client: Client, state: Arc<Mutex<State>>, request: Request) -> Result<Response, Infallible> {
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    let asked = Asked { method: request.method().clone(), path };
    let sprung = state.lock().sprung(&asked);
    let Some(Trap { moment, action, .. }) = sprung else {
        return Ok(forward(&client, &asked, request).await);
    };
    if moment == Moment::After {
        let response = forward(&client, &asked, request).await;
        tracing::debug!(?asked, status = %response.status(), "carried out, and not answered");
    }
    action();
    // Whoever asked is gone, or waits in vain.
    std::future::pending().await
}

async fn forward(client: &Client, asked: &Asked, request: Request) -> Response {
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
            Response::from_parts(parts, Body::new(body))
        }
        Err(error) => {
            let mut response = Response::new(Body::from(error));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &str) -> Asked {
        Asked { method: Method::POST, path: path.to_owned() }
    }

    #[test]
    fn a_trap_waits_for_its_request_and_springs_once() {
        let trap = Trap {
            filter: Box::new(Asked::is_write),
            passing: 1,
            moment: Moment::Before,
            action: Box::new(|| ()),
        };
        let mut state = State { trap: Some(trap), seen: Vec::new() };
        let read = Asked { method: Method::GET, path: "/a".to_owned() };
        assert!(state.sprung(&read).is_none(), "a read does not count");
        assert!(state.sprung(&write("/a")).is_none(), "the first one passes");
        assert!(state.sprung(&read).is_none());
        assert!(state.sprung(&write("/b")).is_some());
        assert!(state.sprung(&write("/c")).is_none(), "it is gone");
        assert_eq!(state.seen.len(), 5);
    }
}
