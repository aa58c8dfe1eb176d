//! The leader of the controller, as its lease shows it.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::Api;
use serde::Serialize;

use crate::age::format_age;
use crate::cluster::UserClusterClient;

/// The lease of the controller.
pub(crate) const LEASE: &str = "vmpool-controller";

/// How long a lease without a holder is a change of leaders, in seconds. A standby replica takes a released
/// lease sooner.
const HANDOVER_SECONDS: i64 = 15;

/// Whether a controller leads. Its JSON form is stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state")]
pub(crate) enum LeaderState {
    /// This replica renews the lease.
    Active {
        /// Its identity.
        holder: String,
        /// When it renewed the lease last.
        renewed: Timestamp,
    },
    /// This replica has not renewed the lease within its duration, and no other replica has taken it.
    Silent {
        /// Its identity.
        holder: String,
        /// When it renewed the lease last.
        renewed: Timestamp,
    },
    /// No replica holds the lease.
    Vacant {
        /// When the last holder released it, if known.
        since: Option<Timestamp>,
    },
    /// There is no lease.
    Missing {
        /// The namespace in which it was looked for.
        namespace: String,
    },
}

impl LeaderState {
    fn of_lease(spec: LeaseSpec, now: Timestamp) -> Self {
        let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
        let renewed = spec.renew_time.map(|time| time.0);
        let duration = i64::from(spec.lease_duration_seconds.unwrap_or_default());
        match (holder, renewed) {
            (Some(holder), Some(renewed)) if now.duration_since(renewed).as_secs() <= duration => {
                Self::Active { holder, renewed }
            }
            (Some(holder), Some(renewed)) => Self::Silent { holder, renewed },
            (None, since) => Self::Vacant { since },
            (Some(_), None) => Self::Vacant { since: None },
        }
    }

    /// The state in one clause, for example `the leader a has been silent for 5m`.
    pub(crate) fn describe(&self, now: Timestamp) -> String {
        match self {
            Self::Active { holder, renewed } => {
                format!("the leader {holder} renewed its lease {} ago", format_age(*renewed, now))
            }
            Self::Silent { holder, renewed } => {
                format!("the leader {holder} has been silent for {}", format_age(*renewed, now))
            }
            Self::Vacant { since: Some(since) } => {
                format!("no controller has held the lease for {}", format_age(*since, now))
            }
            Self::Vacant { since: None } => "no controller holds the lease".to_owned(),
            Self::Missing { namespace } => format!("namespace {namespace} has no lease {LEASE}"),
        }
    }

    /// Whether no controller works, so that every status can be outdated. A missing lease does not show this:
    /// the user may have named another namespace than that of the release.
    pub(crate) fn is_absent(&self, now: Timestamp) -> bool {
        match self {
            Self::Silent { .. } => true,
            Self::Vacant { since } => {
                since.is_some_and(|since| now.duration_since(since).as_secs() > HANDOVER_SECONDS)
            }
            Self::Active { .. } | Self::Missing { .. } => false,
        }
    }
}

/// Reads the lease in namespace `system`, which is that of the release.
///
/// # Errors
/// The request failed, for example because the user may not read leases there.
pub(crate) async fn read_leader_state(
    cluster: &UserClusterClient,
    system: &str,
) -> kube::Result<LeaderState> {
    let api: Api<Lease> = Api::namespaced(cluster.client.clone(), system);
    let spec = api.get_opt(LEASE).await?.and_then(|lease| lease.spec);
    let missing = LeaderState::Missing { namespace: system.to_owned() };
    Ok(spec.map_or(missing, |spec| LeaderState::of_lease(spec, cluster.env.now())))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn state(spec: serde_json::Value) -> LeaderState {
        LeaderState::of_lease(serde_json::from_value(spec).unwrap(), Timestamp::from_second(600).unwrap())
    }

    #[rstest]
    #[case::renewed("1970-01-01T00:09:50.000000Z", "the leader a renewed its lease 10s ago", false)]
    #[case::at_its_end("1970-01-01T00:09:45.000000Z", "the leader a renewed its lease 15s ago", false)]
    #[case::expired("1970-01-01T00:05:00.000000Z", "the leader a has been silent for 5m", true)]
    fn a_leader_is_silent_after_the_duration_of_its_lease(
        #[case] renewed: &str,
        #[case] expected: &str,
        #[case] is_absent: bool,
    ) {
        let now = Timestamp::from_second(600).unwrap();
        let state = state(json!({ "holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed }));
        assert_eq!(state.describe(now), expected);
        assert_eq!(state.is_absent(now), is_absent);
    }

    #[rstest]
    #[case::released_now("1970-01-01T00:09:59.000000Z", "no controller has held the lease for 1s", false)]
    #[case::released_and_not_taken(
        "1970-01-01T00:08:00.000000Z",
        "no controller has held the lease for 2m",
        true
    )]
    fn a_released_lease_is_no_change_of_leaders_for_long(
        #[case] released: &str,
        #[case] expected: &str,
        #[case] is_absent: bool,
    ) {
        let now = Timestamp::from_second(600).unwrap();
        let state = state(json!({ "leaseDurationSeconds": 1, "renewTime": released }));
        assert_eq!(state.describe(now), expected);
        assert_eq!(state.is_absent(now), is_absent);
    }

    #[test]
    fn a_missing_lease_names_its_namespace_and_proves_nothing() {
        let now = Timestamp::UNIX_EPOCH;
        let missing = LeaderState::Missing { namespace: "vmpool-system".into() };
        assert_eq!(missing.describe(now), "namespace vmpool-system has no lease vmpool-controller");
        assert!(!missing.is_absent(now));
        assert_eq!(state(json!({})), LeaderState::Vacant { since: None });
    }
}
