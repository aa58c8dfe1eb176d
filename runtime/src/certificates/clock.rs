//! The time by which certificates are judged.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::material::Material;
use super::said::Said;
use crate::env::Env;

/// A difference that is worth a word.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// 1971-01-01 and 2200-01-01: what lies outside comes from a broken clock, and no sum of what lies inside fails.
const SANE: (Timestamp, Timestamp) =
    (Timestamp::constant(31_536_000, 0), Timestamp::constant(7_258_118_400, 0));

/// Compares clocks, and chooses.
pub(super) struct Clock {
    env: Env,
    /// Wall clock and uptime of the last time.
    last: Option<(Timestamp, Duration)>,
    said: Said,
}

impl Clock {
    pub(super) fn new(env: Env) -> Self {
        Self { env, last: None, said: Said::default() }
    }

    /// The API server's time if it told, because it is the one that verifies. Else ours, but never before what is there
    /// began: a clock that was set back is no reason to make new certificates.
    pub(super) fn now(&mut self, server: Option<Timestamp>, material: &Material) -> Timestamp {
        let own = self.env.now();
        self.watch(own);
        let now = if let Some(server) = server {
            let skew = own.duration_until(server);
            let is_off = skew.abs() > SKEW;
            if self.said.is_new("server", if is_off { "off" } else { "right" }) && is_off {
                let seconds = skew.as_secs();
                tracing::warn!(seconds, "the clock is late by this much; the API server's is used instead");
            }
            server
        } else {
            let begun = [material.serving.as_ref(), material.authority()].into_iter().flatten();
            let begun = begun.map(|facts| facts.begins).max().unwrap_or(Timestamp::MIN);
            let is_early = begun > own;
            if self.said.is_new("own", if is_early { "early" } else { "right" }) && is_early {
                tracing::warn!(%own, %begun, "by the clock, the certificates begin in the future");
            }
            own.max(begun)
        };
        now.clamp(SANE.0, SANE.1)
    }

    /// Says so if the wall clock went another way than the uptime.
    fn watch(&mut self, own: Timestamp) {
        let uptime = self.env.uptime();
        let Some((then, at)) = self.last.replace((own, uptime)) else { return };
        let passed = SignedDuration::try_from(uptime.saturating_sub(at)).unwrap_or_default();
        let jump = then.duration_until(own).saturating_sub(passed);
        if jump.abs() > SKEW {
            tracing::warn!(seconds = jump.as_secs(), "the wall clock has jumped");
        }
    }
}
