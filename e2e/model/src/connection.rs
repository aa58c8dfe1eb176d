//! The connection between a client and the server.

use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::oneshot;
use futures::{FutureExt, StreamExt};
use http::{Request, Response, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::fmt::rfc2822::DateTimePrinter;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::{BoxError, Layer, Service};

use crate::api_error::ApiError;
use crate::call::{Call, Verb};
use crate::fault::{HandledRequest, RequestOutcome};
use crate::server::{ApiServerModel, ApiServerModelState};
use crate::watch::{Watch, WatchEnd};

/// The body type of responses.
type ServerBody = UnsyncBoxBody<Bytes, BoxError>;

/// The response to a request, or the panic of a test while it was served.
type Answer = Result<Result<Response<ServerBody>, BoxError>, Box<dyn Any + Send>>;

impl ApiServerModel {
    /// A client of this server with the name `sender` and this default namespace.
    pub fn client(&self, sender: &str, namespace: &str) -> Client {
        self.client_through(sender, namespace, &tower::layer::util::Identity::new())
    }

    /// The same, with `layer` around the connection.
    pub fn client_through<L>(&self, sender: &str, namespace: &str, layer: &L) -> Client
    where
        L: Layer<ClientConnection>,
        L::Service: Service<Request<Body>, Response = Response<ServerBody>> + Send + 'static,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
    {
        Client::new(
            layer.layer(ClientConnection { server: self.clone(), sender: sender.to_owned() }),
            namespace,
        )
    }

    async fn serve(
        self,
        sender: String,
        request: Request<Body>,
        response: &oneshot::Sender<Answer>,
    ) -> Result<Response<ServerBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let call = match Call::parse(&sender, &parts, &body) {
            Ok(call) => Arc::new(call),
            Err(error) => return Ok(http_response(Err(error))),
        };
        let handling = self.decide(&call);
        if handling.before.is_zero() {
            // Other requests may arrive first, as they could on a network.
            self.env.spawn("turn", async {}).join().await?;
        } else {
            self.env.sleep(handling.before).await;
        }
        let handle_and_log = async |call: &Arc<Call>| {
            let (code, response) = if call.verb == Verb::Watch {
                match self.watch(call) {
                    Ok(response) => (200, response),
                    Err(error) => (error.code.as_u16(), http_response(Err(error))),
                }
            } else {
                let response = self.handle(call).await;
                let code = response.as_ref().map_or_else(|error| error.code.as_u16(), |(code, _)| *code);
                (code, http_response(response))
            };
            let entry = HandledRequest { at: self.env.now(), call: call.clone(), code };
            self.state.lock().log.push(entry);
            response
        };
        let mut response = match handling.outcome {
            RequestOutcome::ServeIfAwaited if response.is_canceled() => futures::future::pending().await,
            RequestOutcome::Serve | RequestOutcome::ServeIfAwaited => handle_and_log(&call).await,
            RequestOutcome::Refuse(error) => http_response(Err(error)),
            RequestOutcome::Respond(code, body) => http_response(Ok((code, body))),
            RequestOutcome::ServeAndRefuse(error) => {
                drop(handle_and_log(&call).await);
                http_response(Err(error))
            }
            RequestOutcome::ResponseLost => {
                drop(handle_and_log(&call).await);
                return Err("connection reset by peer".into());
            }
            RequestOutcome::Unreachable => return Err("connection refused".into()),
            RequestOutcome::ServeAndHang => {
                drop(handle_and_log(&call).await);
                futures::future::pending().await
            }
            RequestOutcome::Hang => futures::future::pending().await,
        };
        let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&self.env.now())?;
        response.headers_mut().insert(header::DATE, date.parse()?);
        if !handling.after.is_zero() {
            self.env.sleep(handling.after).await;
        }
        Ok(response)
    }

    fn watch(&self, call: &Call) -> Result<Response<ServerBody>, ApiError> {
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

    /// Closes every watch of `sender`, as when its process exits.
    pub fn disconnect(&self, sender: &str) {
        self.end_watches(sender, "", WatchEnd::Close);
    }
}

/// The connection of one client.
#[derive(Clone, Debug)]
pub struct ClientConnection {
    server: ApiServerModel,
    sender: String,
}

impl Service<Request<Body>> for ClientConnection {
    type Response = Response<ServerBody>;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    /// The request is served even if its sender is dropped, like a request that a process sent before it was
    /// killed.
    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (response, receiver) = oneshot::channel::<Answer>();
        let (server, sender) = (self.server.clone(), self.sender.clone());
        let handle_and_log = async move {
            let served = AssertUnwindSafe(server.serve(sender, request, &response)).catch_unwind().await;
            // The receiver may be gone.
            _ = response.send(served);
        };
        let task = self.server.env.spawn("request", handle_and_log);
        let ApiServerModelState { in_flight, max_in_flight, .. } = &mut *self.server.state.lock();
        in_flight.retain(|task| !task.is_finished());
        in_flight.push(task);
        *max_in_flight = in_flight.len().max(*max_in_flight);
        let received = async {
            match receiver.await {
                Ok(Ok(response)) => response,
                // A panic in a fault injector must reach the test instead of looking like a network error.
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => Err("the server was dropped".into()),
            }
        };
        received.boxed()
    }
}

fn http_response(response: Result<(u16, Value), ApiError>) -> Response<ServerBody> {
    let (code, body, retry_after) = match response {
        Ok((code, body)) => (code, body, None),
        Err(error) => (error.code.as_u16(), error.body(), error.retry_after),
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
