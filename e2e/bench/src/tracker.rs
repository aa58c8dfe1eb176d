//! Tracks which changes of a pool do not show in its status yet, and how long the others took.
//!
//! ```text
//!  a machine starts or stops  -> the pool's readyReplicas must reach a certain number
//!  a user scales the pool     -> the pool's observedGeneration must reach a certain number
//! ```
//!
//! One status may show several changes: it also shows all changes that were made before the newest one that
//! it shows.

use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// If a change takes longer than this, its pool is starved.
pub(crate) const STARVED: Duration = Duration::from_secs(5);

/// The changes of one pool.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// When a machine was changed, and the expected number of ready replicas.
    ready: Vec<(Instant, i64)>,
    /// When the pool was scaled, and the resulting generation.
    generations: Vec<(Instant, i64)>,
    /// The newest observed generation in the status, and when it appeared.
    observed: Option<(i64, Instant)>,
    /// The number of ready replicas in the last status.
    last_ready: i64,
    ready_delays: Vec<Duration>,
    scale_delays: Vec<Duration>,
}

impl Tracked {
    /// Records that a machine was changed at `at`; from now on `ready` machines run.
    pub(crate) fn machine_changed(&mut self, at: Instant, ready: i64) {
        self.ready.push((at, ready));
    }

    /// Records a scale request that was sent at `at` and caused `generation`. The status may already show it.
    pub(crate) fn scaled(&mut self, at: Instant, generation: i64) {
        match self.observed {
            Some((observed, seen)) if observed >= generation => {
                self.scale_delays.push(seen.saturating_duration_since(at));
            }
            _ => self.generations.push((at, generation)),
        }
    }

    /// Records a status that was observed at `at`.
    pub(crate) fn seen(&mut self, at: Instant, ready: i64, generation: i64) {
        if self.observed.is_none_or(|(observed, _)| observed < generation) {
            self.observed = Some((generation, at));
        }
        let shown = self.generations.extract_if(.., |(_, wanted)| *wanted <= generation);
        self.scale_delays.extend(shown.map(|(since, _)| at.saturating_duration_since(since)));
        // A status with the same number of ready replicas shows no change of a machine.
        if ready == self.last_ready {
            return;
        }
        self.last_ready = ready;
        if let Some(last) = self.ready.iter().rposition(|&(_, wanted)| wanted == ready) {
            let shown = self.ready.drain(..=last);
            self.ready_delays.extend(shown.map(|(since, _)| at.saturating_duration_since(since)));
        }
    }

    /// Number of machine changes that do not show yet.
    pub(crate) fn pending_machines(&self) -> usize {
        self.ready.len()
    }

    /// Number of changes that do not show yet.
    pub(crate) fn pending(&self) -> usize {
        self.ready.len() + self.generations.len()
    }

    /// How long machine changes took to show.
    pub(crate) fn ready_delays(&self) -> &[Duration] {
        &self.ready_delays
    }

    /// How long scale requests took to show.
    pub(crate) fn scale_delays(&self) -> &[Duration] {
        &self.scale_delays
    }

    /// The longest time that a change took to show.
    pub(crate) fn worst(&self) -> Duration {
        self.ready_delays.iter().chain(&self.scale_delays).max().copied().unwrap_or_default()
    }

    /// Whether a change does not show yet or took too long.
    pub(crate) fn is_starved(&self) -> bool {
        self.pending() > 0 || self.worst() > STARVED
    }
}

/// The value below or at which this share of all values lies, such as 0.99; zero for an empty list.
pub(crate) fn duration_quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the result is between 0 and the number of changes"
    )]
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
