//! Bodies of claims and releases.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::{PoolSubresource, dry_run_all};
use crate::enums::{UnknownValue, api_enum};

/// The longest time for which one request can wait for a free machine.
pub const LONGEST_WAIT: Duration = Duration::from_secs(25);

/// A request for any free machine of a pool, which is then protected until the claim ends.
///
/// The same user and id find the same claim again, so a request can be repeated. A repeated request renews
/// the claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[must_use = "a claim does nothing until a client sends it"]
pub struct MachineClaim {
    /// Group and version. The server does not require it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the body. The server does not require it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The id of the claim, which the caller chooses: 1 to 128 letters, digits and the characters `-_.:/`.
    pub id: String,
    /// How long the machine is claimed, in seconds, at most the longest protection of the pool.
    pub duration_seconds: u64,
    /// Why the machine is claimed, for users. At most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long the request waits for a free machine, in seconds, from 0 to 25. An absent value means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u64>,
    /// The name of the only machine that the caller accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Whether the request only renews a claim, and never claims another machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renew: bool,
    /// `All` if the request is only checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
}

impl MachineClaim {
    /// A claim with this id. A duration with a fraction of a second is rounded up, so that the claim is never
    /// shorter than the caller expects.
    pub fn new(id: impl Into<String>, duration: Duration) -> Self {
        let fraction = u64::from(duration.subsec_nanos() > 0);
        let duration_seconds = duration.as_secs().saturating_add(fraction);
        Self { id: id.into(), duration_seconds, ..Self::default() }
    }

    /// Sets `apiVersion` and `kind`.
    pub fn api_version(mut self, api_version: impl Into<String>) -> Self {
        self.api_version = Some(api_version.into());
        self.kind = Some(PoolSubresource::Claim.kind().to_owned());
        self
    }

    /// Sets why the machine is claimed.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets how long the request waits for a free machine, in whole seconds and at most [`LONGEST_WAIT`]. To
    /// wait for longer, repeat the request while the response has the reason `NoMachineAvailable`.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait_seconds = Some(wait.min(LONGEST_WAIT).as_secs());
        self
    }

    /// Accepts only the machine with this name.
    pub fn machine(mut self, name: impl Into<String>) -> Self {
        self.machine = Some(name.into());
        self
    }

    /// Only renews a claim: if it has ended and its machine is gone or in use, the request is refused.
    pub fn renew(mut self) -> Self {
        self.renew = true;
        self
    }

    /// Only checks the request.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = dry_run_all();
        self
    }
}

/// The response to a [`MachineClaim`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimResponse {
    /// Group and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The id of the claim.
    pub id: String,
    /// The claimed machine.
    pub machine: ClaimedMachine,
    /// When the claim ends. To keep the machine for longer, send the request again.
    pub expires_at: Time,
}

/// A machine in a [`ClaimResponse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedMachine {
    /// Its name.
    pub name: String,
    /// Its UID. A [`MachineRelease`] needs it.
    pub uid: String,
    /// Its IP addresses, as the platform reports them. Empty if the platform reports none.
    #[serde(default)]
    pub addresses: Vec<String>,
}

api_enum! {
    /// What happens to a released machine.
    ReleaseAction ("action of a release") {
        /// It stays in the pool and can be claimed again.
        Keep,
        /// It is removed, and `replicas` is decremented.
        Remove,
        /// It is deleted, and the controller creates another machine.
        Replace,
    }
}

/// A request to release a claimed machine. Only the user who claimed the machine can release it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[must_use = "a release does nothing until a client sends it"]
pub struct MachineRelease {
    /// Group and version. The server does not require it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the body. The server does not require it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The id of the claim.
    pub id: String,
    /// The UID of the claimed machine.
    #[serde(rename = "machineUID")]
    pub machine_uid: String,
    /// What happens to the machine, a [`ReleaseAction`] as text.
    pub then: String,
    /// `All` if the request is only checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
}

impl MachineRelease {
    /// A release of the machine with this UID, which the claim with this id has claimed.
    pub fn new(id: impl Into<String>, machine_uid: impl Into<String>, then: ReleaseAction) -> Self {
        Self {
            api_version: None,
            kind: None,
            id: id.into(),
            machine_uid: machine_uid.into(),
            then: then.into(),
            dry_run: Vec::new(),
        }
    }

    /// Sets `apiVersion` and `kind`.
    pub fn api_version(mut self, api_version: impl Into<String>) -> Self {
        self.api_version = Some(api_version.into());
        self.kind = Some(PoolSubresource::Release.kind().to_owned());
        self
    }

    /// Only checks the request.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = dry_run_all();
        self
    }
}

impl ClaimResponse {
    /// The release of the claimed machine.
    pub fn release(&self, then: ReleaseAction) -> MachineRelease {
        MachineRelease::new(self.id.as_str(), self.machine.uid.as_str(), then)
    }
}

/// The response to a [`MachineRelease`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseResponse {
    /// Group and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The released machine.
    pub machine: MachineIdentity,
    /// What happens to it, a [`ReleaseAction`] as text.
    pub then: String,
    /// `replicas` of the pool after the release.
    pub replicas: i64,
}

/// Name and UID of a machine in a [`ReleaseResponse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineIdentity {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}
