//! Requests of users.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{ApiError, Call, Verb};

use super::{NAMESPACE, SimulatedWorld};
use crate::attempt::{ClaimReleaseRequest, MachineToRemove};
use crate::claim_client::{AggregatedClaimClient, ClaimParameters};
use crate::manifest::{POOL, group_version};
use crate::operation::RemovalOperation;
use crate::removal_client::AggregatedRemovalClient;
use crate::transcript::truncated_json;

/// The user name of all users.
const USER: &str = "user";
/// How long a user waits for a response.
const TIMEOUT: Duration = Duration::from_mins(1);

impl SimulatedWorld {
    /// Creates an object as a user.
    pub async fn create(&mut self, resource: &str, object: Value) {
        let call = self.call(Verb::Create, resource, "", "", object);
        _ = self.do_as_user(&call).await;
    }

    /// Sends a request as a user, and advances time until there is a response.
    ///
    /// # Errors
    /// The refusal of the API server model.
    pub async fn do_as_user(&mut self, call: &Call) -> Result<Value, ApiError> {
        let (server, request) = (self.server.clone(), call.clone());
        let response = Arc::new(Mutex::new(None));
        let slot = response.clone();
        let task = self.env.spawn("user", async move {
            let response = server.handle(&request).await;
            *slot.lock() = Some(response);
        });
        self.clock.settle().await;
        let end = self.now() + TIMEOUT;
        while !task.is_finished() && self.now() < end {
            self.step(end).await;
        }
        let response =
            response.lock().take().unwrap_or_else(|| Err(ApiError::new(504, "Timeout", "no answer")));
        self.log(|| {
            let body = if call.body.is_null() { String::new() } else { truncated_json(&call.body) };
            let outcome = response
                .as_ref()
                .map_or_else(|no| format!("{} {}", no.code, no.message), |_| "done".to_owned());
            format!("{call} {body}: {outcome}")
        });
        self.record();
        response.map(|(_, object)| object)
    }

    /// A user's request for an object in the namespace.
    pub fn call(&self, verb: Verb, resource: &str, name: &str, subresource: &str, body: Value) -> Call {
        let (group, version) = group_version(self.options.platform, resource);
        Call {
            sender: USER.to_owned(),
            verb,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query: Vec::new(),
            body,
        }
    }

    /// Starts a client that requests a targeted removal and repeats the request until the outcome is known.
    pub fn start_removal(&mut self, targets: Vec<MachineToRemove>, removal: &RemovalOperation) {
        let RemovalOperation { first, pinned, forced, dry_run, .. } = *removal;
        let path = format!("{}/scaledownwith", self.pool_path(first));
        if !pinned {
            self.unpinned.extend(targets.iter().map(|target| target.name.clone()));
        }
        let (front, env, attempts) = (self.front.clone(), self.env.clone(), self.attempts.clone());
        let client =
            AggregatedRemovalClient { front, env, first, path, targets, pinned, forced, dry_run, attempts };
        self.callers.push(self.env.spawn("caller", client.run()));
    }

    /// Starts a caller that claims a machine.
    pub fn start_claim(&mut self, claim: ClaimParameters, first: usize) {
        let caller = self.caller(first);
        self.callers.push(self.env.spawn("caller", caller.claim(claim)));
    }

    /// Starts a caller that releases a machine.
    pub fn start_release(&mut self, release: ClaimReleaseRequest, first: usize) {
        let caller = self.caller(first);
        self.callers.push(self.env.spawn("caller", caller.release(release)));
    }

    fn caller(&self, first: usize) -> AggregatedClaimClient {
        let (front, env, attempts) = (self.front.clone(), self.env.clone(), self.attempts.clone());
        AggregatedClaimClient { front, env, first, pool: self.pool_path(first), attempts }
    }

    /// The path of the pool in one of the groups of the aggregated API.
    fn pool_path(&self, which: usize) -> String {
        let groups: &[&str] = match self.options.platform {
            TestedPlatform::Dvp => {
                &["subresources.vmpool.dev/v1alpha1", "subresources.virtualization.deckhouse.io/v1alpha2"]
            }
            TestedPlatform::KubeVirt => &["kubevirt.subresources.vmpool.dev/v1alpha1"],
        };
        let group = groups[which % groups.len()];
        format!("/apis/{group}/namespaces/{NAMESPACE}/virtualmachinepools/{POOL}")
    }
}
