//! What a Lease object says, and the Lease objects that we write.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::LeaseConfig;

/// Annotation of a Lease that its holder gave up, with the time of it. It tells a release from a Lease whose holder
/// somebody cleared by hand, perhaps without that holder's knowledge.
const RELEASED: &str = "vmpool.dev/lease-released";

/// `leaseDurationSeconds` of a Lease that its holder gave up, so that other clients of it, too, take it soon.
const RELEASED_SECONDS: i32 = 1;

/// What a read found: two reads with the same version saw the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Version {
    /// There was no Lease.
    Absent,
    /// This object at this version.
    Stored { uid: Option<String>, resource_version: Option<String> },
}

impl Version {
    pub(super) fn of(lease: Option<&Lease>) -> Self {
        let Some(Lease { metadata, .. }) = lease else { return Self::Absent };
        Self::Stored { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone() }
    }
}

/// Who the Lease says leads; `None` if nobody.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// How long the Lease says to wait for its holder.
pub(super) fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// Whether the Lease names nobody though no holder gave it up: it was cleared by hand, or put back after a deletion.
pub(super) fn is_orphaned(lease: &Lease) -> bool {
    holder(lease).is_none() && !is_released(lease)
}

/// Whether the last holder gave the Lease up.
pub(super) fn is_released(lease: &Lease) -> bool {
    let annotations = lease.metadata.annotations.as_ref();
    holder(lease).is_none() && annotations.is_some_and(|annotations| annotations.contains_key(RELEASED))
}

/// Whether the Lease was written by the claim of `identity` that began at `claimed`.
pub(super) fn is_claim(lease: &Lease, identity: &str, claimed: Timestamp) -> bool {
    let acquired = lease.spec.as_ref().and_then(|spec| spec.acquire_time.as_ref());
    holder(lease) == Some(identity) && acquired.is_some_and(|time| time.0 == stamp(claimed))
}

/// The Lease after we have taken or renewed it. Whatever others added to it stays; without `current` it is a new one.
pub(super) fn claim(
    current: Option<&Lease>,
    config: &LeaseConfig,
    claimed: Timestamp,
    now: Timestamp,
) -> Lease {
    let mut lease = current.cloned().unwrap_or_else(|| blank(config));
    let changes_hands = holder(&lease) != Some(&config.identity);
    if let Some(annotations) = &mut lease.metadata.annotations {
        annotations.remove(RELEASED);
    }
    let spec = lease.spec.get_or_insert_default();
    if changes_hands && current.is_some() {
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
    }
    spec.lease_transitions.get_or_insert(0);
    spec.holder_identity = Some(config.identity.clone());
    spec.lease_duration_seconds = Some(whole_seconds(config.duration));
    spec.acquire_time = Some(MicroTime(stamp(claimed)));
    spec.renew_time = Some(MicroTime(stamp(now)));
    lease
}

/// A Lease without a holder, in place of one that was deleted under a holder who may be valid for `longest` still.
///
/// Whoever sees it first only now waits as well.
pub(super) fn placeholder(config: &LeaseConfig, longest: Duration) -> Lease {
    let mut lease = blank(config);
    lease.spec.get_or_insert_default().lease_duration_seconds = Some(whole_seconds(longest));
    lease
}

/// The Lease after its holder gave it up.
pub(super) fn release(current: &Lease, now: Timestamp) -> Lease {
    let mut lease = current.clone();
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(RELEASED.to_owned(), stamp(now).to_string());
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = None;
    spec.lease_duration_seconds = Some(RELEASED_SECONDS);
    spec.acquire_time = Some(MicroTime(stamp(now)));
    spec.renew_time = Some(MicroTime(stamp(now)));
    lease
}

fn blank(config: &LeaseConfig) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            namespace: Some(config.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec::default()),
    }
}

/// Rounded up: a candidate must never wait for less than the holder's validity.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

/// What is left of a time after it was stored.
fn stamp(time: Timestamp) -> Timestamp {
    // Rounding fails only beyond the year 9999.
    time.round(Unit::Microsecond).unwrap_or(time)
}
