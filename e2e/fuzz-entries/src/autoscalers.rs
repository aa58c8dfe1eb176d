//! Autoscalers, and the record of claims that wait for them.

use std::collections::BTreeSet;
use std::hint::black_box;

use jiff::Timestamp;
use vmpool_api::autoscaler::PoolAutoscaler;
use vmpool_autoscaler::admission::review_autoscaler;
use vmpool_autoscaler::decision::compute_desired;
use vmpool_autoscaler::demand::Demand;
use vmpool_autoscaler::read::read_autoscaler;
use vmpool_autoscaler::simulation::parse_recorded_claims;
use vmpool_autoscaler::waiting::{MOST_ENTRIES, WaitingClaimKey, WaitingClaims};

/// A second in 2027.
const NOW: i64 = 1_800_000_000;

/// Reads an autoscaler. Its limits never remove busy machines, and change only later.
pub fn decode_autoscaler(input: &[u8]) {
    let Ok(object) = serde_json::from_slice::<PoolAutoscaler>(input) else { return };
    let settings = read_autoscaler(&object);
    let findings = review_autoscaler(None, &object);
    assert_eq!(findings.len(), settings.problems.len(), "the webhook refuses what the controller skips");
    let now = Timestamp::from_second(NOW).unwrap_or_default();
    for now in [Timestamp::MIN, Timestamp::UNIX_EPOCH, now, Timestamp::MAX] {
        let limits = settings.limits_at(now).limits;
        for busy in [0, 7, u32::MAX] {
            let desired = compute_desired(limits, Demand { busy, waiting: busy / 2 });
            assert!(desired.replicas >= busy, "busy machines stay");
        }
        let next = settings.next_change(now);
        assert!(next.is_none_or(|next| next > now), "the next change is later");
    }
}

/// Reads the annotation with waiting claims, and a recorded demand. Written again, the claims are the same,
/// and their number has a limit.
pub fn parse_waiting_claims(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    black_box(parse_recorded_claims(text).is_ok());
    let mut waiting = WaitingClaims::parse(text, NOW);
    let written = waiting.text().unwrap_or_default();
    assert_eq!(WaitingClaims::parse(&written, NOW), waiting, "written claims read back");
    waiting.record(WaitingClaimKey::new("ann", text), NOW);
    let count = usize::try_from(waiting.count(&BTreeSet::new()));
    assert!(count.is_ok_and(|count| count <= MOST_ENTRIES), "the number of claims has a limit");
}
