//! The published algorithm of the HorizontalPodAutoscaler, with its defaults, as a policy of a replay: the
//! target is a CPU usage, a busy machine uses its whole CPU, and a free one none.

use std::collections::VecDeque;

use crate::simulation::{ReplayedSecond, ReplicaPolicy};

/// The controller computes once in this time, in seconds.
const SYNC_PERIOD: u64 = 15;
/// Within this deviation from the target, the replicas stay.
const TOLERANCE: f64 = 0.1;
/// The replicas are lowered to the highest recommendation of this time, in seconds.
const STABILIZATION: u64 = 300;
/// In one period, the replicas are raised to the double, or by four.
const RAISED_BY: u32 = 4;

/// A HorizontalPodAutoscaler.
pub(super) struct HorizontalPodAutoscaler {
    pub(super) min: u32,
    pub(super) max: u32,
    /// The CPU usage that it aims at, as a part of the request.
    pub(super) target: f64,
    recommendations: VecDeque<(u64, u32)>,
}

impl HorizontalPodAutoscaler {
    pub(super) fn new(min: u32, max: u32, target: f64) -> Self {
        Self { min, max, target, recommendations: VecDeque::new() }
    }

    /// The replicas that the metric asks for.
    fn recommend(&self, seen: &ReplayedSecond) -> u32 {
        let busy = f64::from(seen.demand.busy);
        let ready = seen.free + seen.demand.busy;
        if ready == 0 {
            return seen.replicas;
        }
        let ratio = busy / f64::from(ready) / self.target;
        let is_within = |ratio: f64| (ratio - 1.0).abs() <= TOLERANCE;
        if ratio <= 1.0 || ready == seen.machines {
            return if is_within(ratio) { seen.replicas } else { ceil(ratio * f64::from(ready)) };
        }
        // For a raise, machines that start count with a usage of 0.
        let ratio = busy / f64::from(seen.machines) / self.target;
        if ratio <= 1.0 || is_within(ratio) {
            return seen.replicas;
        }
        ceil(ratio * f64::from(seen.machines)).max(seen.replicas)
    }
}

impl ReplicaPolicy for HorizontalPodAutoscaler {
    fn decide(&mut self, seen: &ReplayedSecond) -> Option<u32> {
        let second = seen.moment.uptime.as_secs();
        // A person has to create the first machine: from zero, the HorizontalPodAutoscaler does nothing.
        if seen.replicas == 0 {
            return Some(self.min);
        }
        if !second.is_multiple_of(SYNC_PERIOD) {
            return None;
        }
        self.recommendations.retain(|(at, _)| second - at < STABILIZATION);
        self.recommendations.push_back((second, self.recommend(seen)));
        let highest = self.recommendations.iter().map(|(_, number)| *number).max().unwrap_or(0);
        let (_, recommended) = self.recommendations.back().copied().unwrap_or_default();
        let wanted = if recommended < seen.replicas { highest.min(seen.replicas) } else { recommended };
        let fastest = (seen.replicas * 2).max(seen.replicas + RAISED_BY);
        Some(wanted.min(fastest).clamp(self.min, self.max)).filter(|replicas| *replicas != seen.replicas)
    }
}

/// The next integer, without what floating point numbers add to an exact one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of machines are small")]
fn ceil(number: f64) -> u32 {
    (number - 1e-9).ceil().max(0.0) as u32
}

#[test]
fn the_algorithm_follows_its_published_examples() {
    use jiff::Timestamp;

    use crate::demand::Demand;
    use crate::history::Moment;

    let seen = |busy, free, starting| ReplayedSecond {
        moment: Moment { now: Timestamp::UNIX_EPOCH, uptime: std::time::Duration::ZERO },
        replicas: busy + free + starting,
        free,
        machines: busy + free + starting,
        demand: Demand { busy, waiting: 0 },
    };
    let hpa = HorizontalPodAutoscaler::new(1, 100, 0.5);
    assert_eq!(hpa.recommend(&seen(4, 0, 0)), 8, "twice the target doubles the replicas");
    assert_eq!(hpa.recommend(&seen(1, 3, 0)), 2, "half of the target halves them");
    assert_eq!(hpa.recommend(&seen(21, 19, 0)), 40, "5% is within the tolerance");
    assert_eq!(hpa.recommend(&seen(23, 17, 0)), 46, "15% is not");
    assert_eq!(hpa.recommend(&seen(4, 0, 4)), 8, "machines that start count with a usage of 0");
    assert_eq!(hpa.recommend(&seen(0, 0, 4)), 4, "without a metric, the replicas stay");
}
