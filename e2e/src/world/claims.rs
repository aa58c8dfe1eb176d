//! Claims and releases through the aggregated API, as users request them.

use http::{HeaderName, HeaderValue};
use kube::{Client, Config};
use serde_json::{Value, json};
use vmpool_installation::programs::Component;
use vmpool_test_cluster::error::{Error, Result};

use super::pool::PoolHandle;
use super::removal::{AggregatedApiResponse, post_json};
use super::state::ScenarioWorld;

/// A claim, or the release of a claimed machine, to be requested. By default it is sent by the administrator.
#[must_use = "a request does nothing until it is sent"]
pub struct ClaimRequestBuilder<'w> {
    world: &'w ScenarioWorld,
    client: Client,
    path: String,
    body: Value,
}

impl ClaimRequestBuilder<'_> {
    /// Sends the request as another user.
    pub fn by(mut self, client: &Client) -> Self {
        self.client = client.clone();
        self
    }

    /// Sets a field of the body.
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.body[field] = value;
        self
    }

    /// Sends the request and returns the response.
    ///
    /// # Errors
    /// [`Error::Violations`].
    pub async fn send(self) -> Result<AggregatedApiResponse> {
        let world = self.world;
        let answer = self.send_unchecked().await;
        world.check().await?;
        Ok(answer)
    }

    /// As [`ClaimRequestBuilder::send`], for parallel requests: the caller checks the invariants afterwards.
    /// What a release removes is recorded for the invariants.
    pub async fn send_unchecked(self) -> AggregatedApiResponse {
        let text = |field: &str| self.body[field].as_str().unwrap_or_default();
        let uid = text("machineUID").to_owned();
        let removes = |then| self.body["dryRun"].is_null() && text("then") == then;
        let replaced = removes("Replace") && self.world.user_actions().deleted.insert(uid.clone());
        let removed = removes("Remove");
        if removed {
            self.world.user_actions().request_undrained_removal(std::slice::from_ref(&uid));
        }
        let answer = post_json(&self.client, &self.path, &self.body).await;
        if !answer.is_success() {
            let mut actions = self.world.user_actions();
            if replaced {
                actions.deleted.remove(&uid);
            }
            if removed {
                actions.removal_refused(&[uid]);
            }
        }
        answer
    }
}

impl<'w> PoolHandle<'w> {
    /// A claim of a machine of this pool with this id, for one hour.
    pub fn claim(&self, id: &str) -> ClaimRequestBuilder<'w> {
        let world = self.world();
        let body = json!({ "id": id, "durationSeconds": 3600 });
        ClaimRequestBuilder { world, client: world.client(), path: self.subresource("claim"), body }
    }

    /// A release of a claimed machine.
    pub fn release(&self, id: &str, machine_uid: &str, then: &str) -> ClaimRequestBuilder<'w> {
        let world = self.world();
        let body = json!({ "id": id, "machineUID": machine_uid, "then": then });
        ClaimRequestBuilder { world, client: world.client(), path: self.subresource("release"), body }
    }
}

impl ScenarioWorld {
    /// A client whose requests reach one replica of the aggregated API, as the API server sends those of a
    /// user. Through the API server, all requests to a group reach the same replica.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if there is no such replica, [`Error::Api`].
    pub fn client_of_replica(&self, user: &str, place: usize) -> Result<Client> {
        let doing = || format!("connecting to replica {place} of the aggregated API");
        let unexpected =
            |error: &dyn std::fmt::Display| Error::Unexpected { what: doing(), last: error.to_string() };
        let service = self.installation().guard()?.service(Component::Apiserver)?;
        let port = service.ports().get(place).ok_or_else(|| unexpected(&"there are fewer replicas"))?;
        let address = format!("https://127.0.0.1:{port}").parse();
        let mut config = Config::new(address.map_err(|error: http::uri::InvalidUri| unexpected(&error))?);
        // The certificate is that of the Service, which the API server checks in all other scenarios.
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let (certificate, key) = self.cluster().front_proxy_certificate();
        config.auth_info.client_certificate = Some(certificate.display().to_string());
        config.auth_info.client_key = Some(key.display().to_string());
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| unexpected(&error));
        config.headers = vec![
            (HeaderName::from_static("x-remote-user"), value(&self.user_name(user))?),
            (HeaderName::from_static("x-remote-group"), value("system:authenticated")?),
        ];
        Client::try_from(config).map_err(Error::api(doing()))
    }
}
