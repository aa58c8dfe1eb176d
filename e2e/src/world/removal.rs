//! Targeted removals through the aggregated API, as users request them.

use std::fmt;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use vmpool_invariants::object::JsonObject;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::error::{Error, Result, error_with_causes};

use super::pool::PoolHandle;
use super::state::ScenarioWorld;

/// The group and version that are always served.
pub const SUBRESOURCES: &str = "subresources.vmpool.dev/v1alpha1";

/// The same for pools of KubeVirt.
pub const KUBEVIRT_SUBRESOURCES: &str = "kubevirt.subresources.vmpool.dev/v1alpha1";

/// A target in a request.
#[derive(Debug, Clone)]
struct Target {
    name: String,
    /// The UID of the machine with this name; empty if there is none.
    uid: String,
}

/// A targeted removal to be requested. By default it is sent by the administrator, without dry run and
/// without UIDs.
#[must_use = "a removal does nothing until it is sent"]
pub struct RemovalRequestBuilder<'w> {
    world: &'w ScenarioWorld,
    client: Client,
    path: String,
    targets: Vec<Target>,
    body: Value,
    dry_run: bool,
}

/// The response of the aggregated API.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregatedApiResponse {
    /// The HTTP status code; 0 if there was no response.
    pub code: u16,
    /// The body, usually a Status.
    pub body: Value,
    /// The value of `Retry-After`, if present.
    pub retry_after: Option<String>,
}

impl AggregatedApiResponse {
    /// Whether the response is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The reason in the Status.
    pub fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    /// The message in the Status.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Whether the request certainly had no effect, because it was refused.
    fn is_refusal(&self) -> bool {
        (400..500).contains(&self.code)
    }
}

impl fmt::Display for AggregatedApiResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.body)
    }
}

impl RemovalRequestBuilder<'_> {
    /// Adds a machine as a target.
    pub fn target(mut self, machine: &JsonObject) -> Self {
        self.targets.push(Target { name: machine.name().to_owned(), uid: machine.uid().to_owned() });
        self
    }

    /// Adds a name as a target, which need not be that of a machine.
    pub fn named(mut self, name: &str) -> Self {
        self.targets.push(Target { name: name.to_owned(), uid: String::new() });
        self
    }

    /// Sends the request as another user.
    pub fn by(mut self, client: &Client) -> Self {
        self.client = client.clone();
        self
    }

    /// Sends the request to another group and version than [`SUBRESOURCES`].
    pub fn through(mut self, group_version: &str) -> Self {
        self.path = self.path.replace(SUBRESOURCES, group_version);
        self
    }

    /// Adds the UIDs of the machines, so that no other machine with the same name is removed.
    pub fn pinned(mut self) -> Self {
        self.body["targetUIDs"] = self.targets.iter().map(|target| json!(target.uid)).collect();
        self
    }

    /// Makes the request a dry run through a field in the body.
    pub fn dry_run_by_body(mut self) -> Self {
        self.body["dryRun"] = json!(["All"]);
        self.dry_run = true;
        self
    }

    /// Makes the request a dry run through a query parameter.
    pub fn dry_run_by_query(mut self) -> Self {
        self.path += "?dryRun=All";
        self.dry_run = true;
        self
    }

    /// Sets a field of the body.
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.body[field] = value;
        self
    }

    /// Sends the request and returns the response. Only requests that may have had an effect are recorded for
    /// the invariants.
    ///
    /// # Errors
    /// [`Error::Violations`].
    pub async fn send(self) -> Result<AggregatedApiResponse> {
        let world = self.world;
        let answer = self.send_unchecked().await;
        world.check().await?;
        Ok(answer)
    }

    /// As [`RemovalRequestBuilder::send`], for parallel requests: the caller checks the invariants
    /// afterwards.
    pub async fn send_unchecked(mut self) -> AggregatedApiResponse {
        let names: Value = self.targets.iter().map(|target| json!(target.name)).collect();
        if self.body["targets"].is_null() {
            self.body["targets"] = names;
        }
        let known = self.targets.iter().filter(|target| !self.dry_run && !target.uid.is_empty());
        let uids: Vec<String> = known.clone().map(|target| target.uid.clone()).collect();
        if self.body["force"] == true {
            self.world.user_actions().request_undrained_removal(&uids);
        } else {
            self.world.user_actions().request_removal(&uids);
        }
        let answer = post_json(&self.client, &self.path, &self.body).await;
        let mut actions = self.world.user_actions();
        if answer.is_refusal() {
            actions.removal_refused(&uids);
        } else if answer.is_success() {
            actions.completed_removals.extend(known.map(|target| (target.uid.clone(), target.name.clone())));
        }
        answer
    }
}

/// Sends a POST with a JSON body.
pub(super) async fn post_json(client: &Client, path: &str, body: &Value) -> AggregatedApiResponse {
    let lost =
        |what: String| AggregatedApiResponse { code: 0, body: json!({ "message": what }), retry_after: None };
    let request = Request::builder().method(Method::POST).uri(path).header(CONTENT_TYPE, "application/json");
    let request = match request.body(kube::client::Body::from(body.to_string().into_bytes())) {
        Ok(request) => request,
        Err(error) => return lost(error.to_string()),
    };
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(error) => return lost(error_with_causes(&error)),
    };
    let code = response.status().as_u16();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.map(str::to_owned);
    match response.into_body().collect_bytes().await {
        Ok(bytes) => {
            let text = || json!({ "message": String::from_utf8_lossy(&bytes) });
            AggregatedApiResponse {
                code,
                body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
                retry_after,
            }
        }
        Err(error) => lost(error_with_causes(&error)),
    }
}

impl<'w> PoolHandle<'w> {
    /// A targeted removal for this pool, without targets so far.
    pub fn removal(&self) -> RemovalRequestBuilder<'w> {
        let world = self.world();
        let path = self.subresource("scaledownwith");
        RemovalRequestBuilder {
            world,
            client: world.client(),
            path,
            targets: Vec::new(),
            body: json!({}),
            dry_run: false,
        }
    }

    /// The path of a subresource of the aggregated API.
    pub fn subresource(&self, name: &str) -> String {
        let group = match self.world().platform() {
            TestedPlatform::Dvp => SUBRESOURCES,
            TestedPlatform::KubeVirt => KUBEVIRT_SUBRESOURCES,
        };
        let (namespace, pool) = (self.world().namespace(), self.name());
        format!("/apis/{group}/namespaces/{namespace}/virtualmachinepools/{pool}/{name}")
    }

    /// Requests a targeted removal, and expects a success.
    ///
    /// # Errors
    /// [`Error::Unexpected`] with the response if it is no success, [`Error::Violations`].
    pub async fn remove(&self, machines: &[JsonObject]) -> Result<()> {
        let removal = machines.iter().fold(self.removal(), RemovalRequestBuilder::target);
        let answer = removal.send().await?;
        if answer.is_success() {
            return Ok(());
        }
        let names: Vec<&str> = machines.iter().map(JsonObject::name).collect();
        Err(Error::Unexpected {
            what: format!("pool {} accepts the removal of {}", self.name(), names.join(", ")),
            last: answer.to_string(),
        })
    }
}
