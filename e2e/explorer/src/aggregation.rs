//! The aggregated API as clients reach it: through the API server, served by any running replica.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body as ClientBody;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, Service, ServiceExt};
use vmpool_model::ClientConnection;
use vmpool_runtime::https::Peer;
use vmpool_runtime::tls::PeerCertificate;

use crate::instance::CONTROLLER;
use crate::process::SimulatedProcess;

/// The user of the clients in schedules.
const USER: &str = "alice";

/// Common name in the certificate that the API server uses as front proxy.
const PROXY: &str = "front-proxy";

/// The body type of the model's responses.
type ServerBody = UnsyncBoxBody<Bytes, BoxError>;

/// The response that a client receives.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub code: StatusCode,
    /// The body.
    pub body: String,
}

/// The running replicas. Clones share the list.
#[derive(Clone, Default)]
pub struct AggregatedApi(Arc<Mutex<Vec<Replica>>>);

#[derive(Clone)]
struct Replica {
    name: String,
    process: SimulatedProcess,
    router: Router,
}

impl AggregatedApi {
    /// Adds a replica.
    pub fn add(&self, name: &str, process: &SimulatedProcess, router: Router) {
        self.0.lock().push(Replica { name: name.to_owned(), process: process.clone(), router });
    }

    /// Removes a replica.
    pub fn remove(&self, name: &str) {
        self.0.lock().retain(|replica| replica.name != name);
    }

    /// Sends a request of the user of all clients to the `which`-th running replica. `None` if no replica
    /// responds.
    pub async fn post(&self, which: usize, path: &str, body: &Value) -> Option<Reply> {
        self.post_as(USER, which, path, body.to_string()).await
    }

    /// Sends a request on behalf of a user to the `which`-th running replica. `None` if no replica responds.
    async fn post_as(&self, user: &str, which: usize, path: &str, body: impl Into<Body>) -> Option<Reply> {
        let replica = {
            let replicas = self.0.lock();
            replicas.get(which.checked_rem(replicas.len())?)?.clone()
        };
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("X-Remote-User", user)
            .header("X-Remote-Group", "system:authenticated")
            .extension(Peer {
                certificate: Some(PeerCertificate { common_name: Some(PROXY.to_owned()) }),
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            })
            .body(body.into())
            .ok()?;
        let answer = async move {
            let Ok(response) = replica.router.oneshot(request).await;
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.ok()?.to_bytes();
            Some(Reply { code: parts.status, body: String::from_utf8_lossy(&bytes).into_owned() })
        };
        replica.process.run(answer).await.flatten()
    }
}

/// The ConfigMap that contains the front proxy's CA.
///
/// # Errors
/// If the certificate cannot be generated.
pub fn authentication_config_map() -> Result<Value, rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let mut authority = rcgen::CertificateParams::new(Vec::new())?;
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "extension-apiserver-authentication" },
        "data": {
            "requestheader-client-ca-file": authority.self_signed(&key)?.pem(),
            "requestheader-allowed-names": json!([PROXY]).to_string(),
            "requestheader-username-headers": json!(["X-Remote-User"]).to_string(),
            "requestheader-group-headers": json!(["X-Remote-Group"]).to_string(),
            "requestheader-extra-headers-prefix": json!(["X-Remote-Extra-"]).to_string(),
        },
    }))
}

/// Sends the requests of a controller for the aggregated API to a replica of it, as the API server does. All
/// other requests reach the model.
pub(crate) fn route_aggregated(front: AggregatedApi, connection: ClientConnection) -> impl ClientService {
    tower::service_fn(move |request: Request<ClientBody>| {
        let (front, connection) = (front.clone(), connection.clone());
        let response = async move {
            if is_aggregated(request.uri().path()) {
                forward_to_replica(&front, request).await
            } else {
                connection.oneshot(request).await
            }
        };
        response.boxed()
    })
}

/// Whether the path is one of a removal API.
fn is_aggregated(path: &str) -> bool {
    let group = path.strip_prefix("/apis/").and_then(|path| path.split('/').next());
    vmpool_platforms::removal::APIS.removal.iter().any(|api| Some(api.group) == group)
}

/// The response of a replica to a controller. Without replicas the API server has no endpoint to call.
async fn forward_to_replica(
    front: &AggregatedApi,
    request: Request<ClientBody>,
) -> Result<Response<ServerBody>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let reply = front.post_as(CONTROLLER, 0, parts.uri.path(), body).await;
    let reply = reply.ok_or("no replica of the aggregated API responds")?;
    let mut response = Response::new(Full::from(reply.body).map_err(BoxError::from).boxed_unsync());
    *response.status_mut() = reply.code;
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Allows every SubjectAccessReview, because the model has no authorization. Passes all other requests on.
pub fn allow_every_review(connection: ClientConnection) -> impl ClientService {
    tower::service_fn(move |request: Request<ClientBody>| {
        let connection = connection.clone();
        let response = async move {
            if request.uri().path().ends_with("/subjectaccessreviews") {
                let yes = Full::from(json!({ "status": { "allowed": true } }).to_string());
                return Ok(Response::new(yes.map_err(BoxError::from).boxed_unsync()));
            }
            connection.oneshot(request).await
        };
        response.boxed()
    })
}

/// The service type from which a client can be built.
pub trait ClientService:
    Service<
        Request<ClientBody>,
        Response = Response<ServerBody>,
        Error = BoxError,
        Future = BoxFuture<'static, Result<Response<ServerBody>, BoxError>>,
    > + Send
    + 'static
{
}

impl<S> ClientService for S where
    S: Service<
            Request<ClientBody>,
            Response = Response<ServerBody>,
            Error = BoxError,
            Future = BoxFuture<'static, Result<Response<ServerBody>, BoxError>>,
        > + Send
        + 'static
{
}
