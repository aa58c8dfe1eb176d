//! The real webhook, called as its ValidatingWebhookConfiguration specifies.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt;
use vmpool_api::kubevirt::POOL_GROUP;
use vmpool_engine::admission::PrivilegedUsers;
use vmpool_model::{Admission, AdmissionInput, ApiError, ApiServerModel, Call, Verb};
use vmpool_platforms::admission::{AdmissionSettings, ClusterCapabilities, admission_rules};
use vmpool_platforms::dvp::admission::{POOL_PATH, SCALE_PATH};
use vmpool_platforms::kubevirt::admission as kubevirt;
use vmpool_runtime::Env;
use vmpool_webhook::ReviewState;
use vmpool_webhook::metrics::WebhookMetrics;

use crate::instance::{APISERVER, CONTROLLER, SYSTEM, sender_user_name};

/// The webhook's user name.
pub const NAME: &str = "webhook";
/// How long the API server waits for the webhook's response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// JSON pointers to the removal record of DVP pools and of KubeVirt pools.
const RECORDS: [&str; 2] = [
    "/metadata/annotations/vmpool.virtualization.deckhouse.io~1scale-down-targets",
    "/metadata/annotations/vmpool.pool.kubevirt.io~1scale-in-targets",
];

/// The behavior of the webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebhookState {
    /// It responds normally.
    #[default]
    Works,
    /// The connection is refused.
    Down,
    /// It never responds.
    Hangs,
    /// It denies every request.
    Denies,
}

/// The webhook as the API server model calls it.
pub struct Webhook {
    env: Env,
    router: Router,
    service: Arc<Mutex<WebhookState>>,
}

impl Webhook {
    /// A webhook that behaves as `service` says.
    pub fn new(server: &ApiServerModel, env: &Env, service: Arc<Mutex<WebhookState>>) -> Self {
        let settings = AdmissionSettings {
            users: PrivilegedUsers {
                removal_handler: Some(sender_user_name(APISERVER)),
                controller: Some(sender_user_name(CONTROLLER)),
            },
            cluster: ClusterCapabilities::default(),
        };
        let client = server.client(NAME, SYSTEM);
        let router = vmpool_webhook::webhook_router(&ReviewState::new(
            admission_rules(&settings),
            client,
            WebhookMetrics::new(),
            env.clone(),
        ));
        Self { env: env.clone(), router, service }
    }
}

impl Admission for Webhook {
    fn admit(&self, review: AdmissionInput) -> BoxFuture<'static, Result<(), ApiError>> {
        let Some((hook, path, operation)) = matching_webhook(&review) else {
            return async { Ok(()) }.boxed();
        };
        let (env, router, service) = (self.env.clone(), self.router.clone(), *self.service.lock());
        let failed = move |why: &str| {
            let text = format!("Internal error occurred: failed calling webhook \"{hook}\": {why}");
            ApiError::new(500, "InternalError", text)
        };
        async move {
            let response = match service {
                WebhookState::Down => return Err(failed("connection refused")),
                WebhookState::Hangs => {
                    env.sleep(TIMEOUT).await;
                    return Err(failed("context deadline exceeded"));
                }
                WebhookState::Denies => {
                    json!({ "allowed": false, "status": { "code": 403, "reason": "Forbidden", "message": "no" } })
                }
                WebhookState::Works => match env.timeout(TIMEOUT, call_webhook(router, path, operation, &review)).await {
                    Ok(response) => response.map_err(|why| failed(&why))?,
                    Err(_) => return Err(failed("context deadline exceeded")),
                },
            };
            if response["allowed"] == true {
                return Ok(());
            }
            let status = &response["status"];
            let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(403);
            let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
            let message = format!("admission webhook \"{hook}\" denied the request: {}", text("message"));
            Err(ApiError::new(code, &text("reason"), message))
        }
        .boxed()
    }
}

/// The webhook, path and operation for a request, according to the rules and match conditions of the chart.
fn matching_webhook(review: &AdmissionInput) -> Option<(&'static str, &'static str, &'static str)> {
    let AdmissionInput { call, old, new } = review;
    if call.resource != "virtualmachinepools" {
        return None;
    }
    let is_kubevirt = call.group == POOL_GROUP;
    let (hook, path) = if is_kubevirt {
        ("kubevirt-pools.webhook.vmpool.dev", kubevirt::POOL_PATH)
    } else {
        ("pools.webhook.vmpool.dev", POOL_PATH)
    };
    let records = |pool: &Value| RECORDS.map(|record| pool.pointer(record).cloned());
    match (call.verb, call.subresource.as_str()) {
        (Verb::Create, "") => Some((hook, path, "CREATE")),
        (Verb::Update | Verb::Patch(_), "") => {
            (old["spec"] != new["spec"] || records(old) != records(new)).then_some((hook, path, "UPDATE"))
        }
        // Only DVP pools have a guard against shrinking.
        (_, "scale") if is_kubevirt => None,
        (Verb::Update | Verb::Patch(_), "scale") => {
            let count = |scale: &Value| scale["spec"]["replicas"].as_i64().unwrap_or_default();
            (count(new) < count(old)).then_some(("scale.webhook.vmpool.dev", SCALE_PATH, "UPDATE"))
        }
        _ => None,
    }
}

async fn call_webhook(
    router: Router,
    path: &str,
    operation: &str,
    review: &AdmissionInput,
) -> Result<Value, String> {
    let AdmissionInput { call, old, new } = review;
    let Call { namespace, name, subresource, sender, .. } = call;
    let question = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": operation, "namespace": namespace, "name": name, "subResource": subresource,
        "userInfo": { "username": sender_user_name(sender) }, "object": new, "oldObject": old,
    }});
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(question.to_string())).map_err(|error| error.to_string())?;
    let Ok(response) = router.oneshot(request).await;
    let code = response.status();
    let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let response: Value = serde_json::from_slice(&bytes).map_err(|error| format!("{code}: {error}"))?;
    Ok(response["response"].clone())
}
