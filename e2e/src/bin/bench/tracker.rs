//! Which changes of which pools have not shown in their pool's status yet, and how long the others took.
//!
//! ```text
//!  a machine starts or stops  -> the pool's readyReplicas must come to a certain number
//!  the owner scales the pool  -> the pool's observedGeneration must come to a certain one
//! ```
//!
//! Several changes may show in one status: whatever was asked for before the one that shows has shown, too.

use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// A change took longer than this: its pool was starved.
pub(crate) const STARVED: Duration = Duration::from_secs(5);

/// One pool.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// When a machine was changed, and how many ready replicas that makes.
    ready: Vec<(Instant, i64)>,
    /// When the pool was scaled, and the generation that this made.
    generations: Vec<(Instant, i64)>,
    /// The newest generation that the status has shown, and since when.
    observed: Option<(i64, Instant)>,
    /// The number of ready replicas that the status showed last.
    last_ready: i64,
    ready_delays: Vec<Duration>,
    scale_delays: Vec<Duration>,
}

impl Tracked {
    /// A machine was changed at `at`: `ready` of them run now.
    pub(crate) fn machine_changed(&mut self, at: Instant, ready: i64) {
        self.ready.push((at, ready));
    }

    /// The pool was scaled by a request sent at `at`, which made this generation. The status may have shown it already.
    pub(crate) fn scaled(&mut self, at: Instant, generation: i64) {
        match self.observed {
            Some((observed, seen)) if observed >= generation => {
                self.scale_delays.push(seen.saturating_duration_since(at));
            }
            _ => self.generations.push((at, generation)),
        }
    }

    /// The status was seen at `at`.
    pub(crate) fn seen(&mut self, at: Instant, ready: i64, generation: i64) {
        if self.observed.is_none_or(|(observed, _)| observed < generation) {
            self.observed = Some((generation, at));
        }
        let shown = self.generations.extract_if(.., |(_, wanted)| *wanted <= generation);
        self.scale_delays.extend(shown.map(|(since, _)| at.saturating_duration_since(since)));
        // A status that changed otherwise says nothing new about machines.
        if ready == self.last_ready {
            return;
        }
        self.last_ready = ready;
        if let Some(last) = self.ready.iter().rposition(|&(_, wanted)| wanted == ready) {
            let shown = self.ready.drain(..=last);
            self.ready_delays.extend(shown.map(|(since, _)| at.saturating_duration_since(since)));
        }
    }

    /// How many changes of machines have not shown.
    pub(crate) fn pending_machines(&self) -> usize {
        self.ready.len()
    }

    /// How many changes have not shown.
    pub(crate) fn pending(&self) -> usize {
        self.ready.len() + self.generations.len()
    }

    /// How long changes of machines took until they showed.
    pub(crate) fn ready_delays(&self) -> &[Duration] {
        &self.ready_delays
    }

    /// How long scale requests took until they showed.
    pub(crate) fn scale_delays(&self) -> &[Duration] {
        &self.scale_delays
    }

    /// The longest that any change took.
    pub(crate) fn worst(&self) -> Duration {
        self.ready_delays.iter().chain(&self.scale_delays).max().copied().unwrap_or_default()
    }

    /// Whether a change has not shown, or took too long.
    pub(crate) fn is_starved(&self) -> bool {
        self.pending() > 0 || self.worst() > STARVED
    }
}

/// The value that `share` of all are at most, such as 0.99; zero of none.
pub(crate) fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count of changes, from 0 to 1 of it"
    )]
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
