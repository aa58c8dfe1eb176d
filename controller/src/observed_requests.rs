//! A layer of a client that observes its requests and their responses.

use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use tower::{Layer, Service};

/// Observes the requests of a client.
pub trait RequestObserver: Clone {
    /// What it knows of one request in flight.
    type Exchange: ObservedExchange;

    /// A request is sent.
    fn begin(&self, method: &Method, uri: &Uri) -> Self::Exchange;
}

/// One request in flight. It is dropped if no response comes.
pub trait ObservedExchange: Send + 'static {
    /// The response has begun.
    fn answered(self, status: StatusCode, headers: &HeaderMap);
}

/// The layer of an observer.
#[derive(Clone, Debug)]
pub struct RequestObserverLayer<O>(pub(crate) O);

impl<S, O: Clone> Layer<S> for RequestObserverLayer<O> {
    type Service = ObservedService<S, O>;

    fn layer(&self, inner: S) -> ObservedService<S, O> {
        ObservedService { inner, observer: self.0.clone() }
    }
}

/// A service whose requests are observed.
#[derive(Clone, Debug)]
pub struct ObservedService<S, O> {
    inner: S,
    observer: O,
}

impl<S, O, A, B> Service<Request<A>> for ObservedService<S, O>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    O: RequestObserver,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let exchange = self.observer.begin(request.method(), request.uri());
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            if let Ok(response) = &answer {
                exchange.answered(response.status(), response.headers());
            }
            answer
        }
        .boxed()
    }
}
