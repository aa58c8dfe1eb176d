//! Reading and creating Lease objects.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::config::LeaseConfig;

/// The annotation with the time at which the leader released the Lease. A Lease without a holder and without
/// this annotation was changed by another client, and its leader may still lead.
const RELEASED: &str = vmpool_api::annotations::LEASE_RELEASED;

/// `leaseDurationSeconds` of a released Lease, so that candidates with another implementation also acquire it
/// soon.
const RELEASED_SECONDS: i32 = 1;

/// The version of the Lease in a read. If it is equal in two reads, the Lease is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Version {
    /// The Lease does not exist.
    Absent,
    /// The object with this UID at this resource version.
    Stored { uid: Option<String>, resource_version: Option<String> },
}

impl Version {
    pub(super) fn of(lease: Option<&Lease>) -> Self {
        let Some(Lease { metadata, .. }) = lease else { return Self::Absent };
        Self::Stored { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone() }
    }
}

/// The holder in the Lease; `None` if there is none.
pub(super) fn lease_holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The duration in the Lease.
pub(super) fn lease_duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// Whether the Lease has no holder and was not released: another client cleared the holder, or a candidate
/// restored a deleted Lease.
pub(super) fn is_orphaned(lease: &Lease) -> bool {
    lease_holder(lease).is_none() && !is_released(lease)
}

/// Whether the last holder released the Lease.
pub(super) fn is_released(lease: &Lease) -> bool {
    let annotations = lease.metadata.annotations.as_ref();
    lease_holder(lease).is_none() && annotations.is_some_and(|annotations| annotations.contains_key(RELEASED))
}

/// Whether the holder is `identity`, since its acquisition at `acquired_at`.
pub(super) fn is_held_since(lease: &Lease, identity: &str, acquired_at: Timestamp) -> bool {
    let acquired = lease.spec.as_ref().and_then(|spec| spec.acquire_time.as_ref());
    lease_holder(lease) == Some(identity)
        && acquired.is_some_and(|time| time.0 == round_to_microseconds(acquired_at))
}

/// The Lease with this process as holder, for acquisition and renewal. Fields and annotations of other
/// clients are kept. Without `current`, the Lease is new.
pub(super) fn held_lease(
    current: Option<&Lease>,
    config: &LeaseConfig,
    acquired_at: Timestamp,
    now: Timestamp,
) -> Lease {
    let mut lease = current.cloned().unwrap_or_else(|| empty_lease(config));
    let is_new_holder = lease_holder(&lease) != Some(&config.identity);
    if let Some(annotations) = &mut lease.metadata.annotations {
        annotations.remove(RELEASED);
    }
    let spec = lease.spec.get_or_insert_default();
    if is_new_holder && current.is_some() {
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
    }
    spec.lease_transitions.get_or_insert(0);
    spec.holder_identity = Some(config.identity.clone());
    spec.lease_duration_seconds = Some(whole_seconds(config.duration));
    spec.acquire_time = Some(MicroTime(round_to_microseconds(acquired_at)));
    spec.renew_time = Some(MicroTime(round_to_microseconds(now)));
    lease
}

/// A Lease without a holder that replaces a deleted Lease, whose holder may still lead for the duration
/// `longest`.
///
/// A candidate that reads the Lease for the first time waits for this duration, too.
pub(super) fn placeholder_lease(config: &LeaseConfig, longest: Duration) -> Lease {
    let mut lease = empty_lease(config);
    lease.spec.get_or_insert_default().lease_duration_seconds = Some(whole_seconds(longest));
    lease
}

/// The Lease after its release.
pub(super) fn released_lease(current: &Lease, now: Timestamp) -> Lease {
    let mut lease = current.clone();
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(RELEASED.to_owned(), round_to_microseconds(now).to_string());
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = None;
    spec.lease_duration_seconds = Some(RELEASED_SECONDS);
    spec.acquire_time = Some(MicroTime(round_to_microseconds(now)));
    spec.renew_time = Some(MicroTime(round_to_microseconds(now)));
    lease
}

fn empty_lease(config: &LeaseConfig) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            namespace: Some(config.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec::default()),
    }
}

/// Rounded up, so that candidates wait at least for the validity of the leader.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

/// A time with the precision of stored times.
fn round_to_microseconds(time: Timestamp) -> Timestamp {
    // Rounding fails only beyond the year 9999.
    time.round(Unit::Microsecond).unwrap_or(time)
}
