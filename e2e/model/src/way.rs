//! The connection between a client and the server.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use http::{Request, Response, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::{BoxError, Layer, Service};

use crate::answer::Refusal;
use crate::call::{Call, Verb};
use crate::conduct::{Fate, Served};
use crate::server::{Server, State};
use crate::watch::{Break, Watch};

/// The body type of responses.
type ServerBody = UnsyncBoxBody<Bytes, BoxError>;

impl Server {
    /// A client of this server with the name `who` and this default namespace.
    pub fn client(&self, who: &str, namespace: &str) -> Client {
        self.client_through(who, namespace, &tower::layer::util::Identity::new())
    }

    /// The same, with `layer` around the connection.
    pub fn client_through<L>(&self, who: &str, namespace: &str, layer: &L) -> Client
    where
        L: Layer<Way>,
        L::Service: Service<Request<Body>, Response = Response<ServerBody>> + Send + 'static,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
    {
        Client::new(layer.layer(Way { server: self.clone(), who: who.to_owned() }), namespace)
    }

    async fn serve(self, who: String, request: Request<Body>) -> Result<Response<ServerBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let call = match Call::parse(&who, &parts, &body) {
            Ok(call) => Arc::new(call),
            Err(refusal) => return Ok(answered(Err(refusal))),
        };
        let conduct = self.judge(&call);
        if conduct.before.is_zero() {
            // Other requests may arrive first, as they could on a network.
            self.env.spawn("turn", async {}).join().await?;
        } else {
            self.env.sleep(conduct.before).await;
        }
        let served = async |call: &Arc<Call>| {
            let (code, response) = if call.verb == Verb::Watch {
                match self.watch(call) {
                    Ok(response) => (200, response),
                    Err(refusal) => (refusal.code.as_u16(), answered(Err(refusal))),
                }
            } else {
                let answer = self.handle(call).await;
                let code = answer.as_ref().map_or_else(|refusal| refusal.code.as_u16(), |(code, _)| *code);
                (code, answered(answer))
            };
            let entry = Served { at: self.env.now(), call: call.clone(), code };
            self.state.lock().log.push(entry);
            response
        };
        let answer = match conduct.fate {
            Fate::Serve => served(&call).await,
            Fate::Refuse(refusal) => answered(Err(refusal)),
            Fate::Answer(code, body) => answered(Ok((code, body))),
            Fate::ServeAndAnswer(refusal) => {
                drop(served(&call).await);
                answered(Err(refusal))
            }
            Fate::AnswerLost => {
                drop(served(&call).await);
                return Err("connection reset by peer".into());
            }
            Fate::Unreachable => return Err("connection refused".into()),
            Fate::ServeAndHang => {
                drop(served(&call).await);
                futures::future::pending().await
            }
            Fate::Hang => futures::future::pending().await,
        };
        if !conduct.after.is_zero() {
            self.env.sleep(conduct.after).await;
        }
        Ok(answer)
    }

    fn watch(&self, call: &Call) -> Result<Response<ServerBody>, Refusal> {
        let resource = self.resource(call)?;
        let (id, lines) = {
            let state = &mut *self.state.lock();
            state.opened += 1;
            let (watch, lines) = Watch::open(state.opened, &state.store, resource, call)?;
            state.watches.extend(watch);
            state.publish();
            (state.opened, lines)
        };
        let seconds = call.parameter("timeoutSeconds").and_then(|seconds| seconds.parse().ok());
        let server = self.clone();
        let limit = seconds.map(std::time::Duration::from_secs);
        let end = async move {
            match limit {
                Some(limit) => server.env.sleep(limit).await,
                None => futures::future::pending().await,
            }
            server.state.lock().watches.retain(|watch| watch.id != id);
        };
        let frames = lines.map(|line| Ok::<_, BoxError>(Frame::data(line))).take_until(end.boxed());
        Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
    }

    /// Closes every watch of `who`, as when its process exits.
    pub fn hang_up(&self, who: &str) {
        self.break_watches(who, "", Break::Close);
    }
}

/// The connection of one client.
#[derive(Clone, Debug)]
pub struct Way {
    server: Server,
    who: String,
}

impl Service<Request<Body>> for Way {
    type Response = Response<ServerBody>;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    /// The request is served even if its sender is dropped, like a request that a process sent before it was killed.
    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (answer, hear) = futures::channel::oneshot::channel();
        let (server, who) = (self.server.clone(), self.who.clone());
        let served = async move {
            // The receiver may be gone.
            _ = answer.send(AssertUnwindSafe(server.serve(who, request)).catch_unwind().await);
        };
        let task = self.server.env.spawn("request", served);
        let State { under_way, most_under_way, .. } = &mut *self.server.state.lock();
        under_way.retain(|task| !task.is_finished());
        under_way.push(task);
        *most_under_way = under_way.len().max(*most_under_way);
        let heard = async {
            match hear.await {
                Ok(Ok(answer)) => answer,
                // A panic in a referee must reach the test instead of looking like a network error.
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => Err("the server was dropped".into()),
            }
        };
        heard.boxed()
    }
}

fn answered(answer: Result<(u16, Value), Refusal>) -> Response<ServerBody> {
    let (code, body, retry_after) = match answer {
        Ok((code, body)) => (code, body, None),
        Err(refusal) => (refusal.code.as_u16(), refusal.body(), refusal.retry_after),
    };
    let body = serde_json::to_vec(&body).expect("JSON can be written");
    let body = Full::from(body).map_err(BoxError::from).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
