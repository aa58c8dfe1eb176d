//! The time for the validation and creation of certificates.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::log_once::LogOnce;
use super::material::Material;
use crate::env::Env;

/// The minimum difference between two clocks that is logged.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// 1971-01-01 and 2200-01-01. A time outside this range comes from a defective clock. Sums with times inside
/// it do not overflow.
const VALID_RANGE: (Timestamp, Timestamp) =
    (Timestamp::constant(31_536_000, 0), Timestamp::constant(7_258_118_400, 0));

/// Selects the clock to use, and logs differences between clocks.
pub(super) struct CertificateClock {
    env: Env,
    /// Wall clock and uptime at the last call.
    last: Option<(Timestamp, Duration)>,
    log_once: LogOnce,
}

impl CertificateClock {
    pub(super) fn new(env: Env) -> Self {
        Self { env, last: None, log_once: LogOnce::default() }
    }

    /// The time of the API server if it is known, because the API server validates the certificates.
    /// Otherwise the local time, but not before the start of the validity of existing certificates, so that a
    /// clock that was set back does not cause new certificates.
    pub(super) fn now(&mut self, server: Option<Timestamp>, material: &Material) -> Timestamp {
        let own = self.env.now();
        self.check_jump(own);
        let now = if let Some(server) = server {
            let skew = own.duration_until(server);
            let is_off = skew.abs() > SKEW;
            if self.log_once.is_new("server", if is_off { "different" } else { "equal" }) && is_off {
                let seconds = skew.as_secs();
                tracing::warn!(
                    seconds,
                    "the local clock differs from the clock of the API server; using the latter"
                );
            }
            server
        } else {
            let start = [material.serving.as_ref(), material.authority()].into_iter().flatten();
            let start = start.map(|certificate| certificate.not_before).max().unwrap_or(Timestamp::MIN);
            let is_early = start > own;
            if self.log_once.is_new("own", if is_early { "early" } else { "valid" }) && is_early {
                tracing::warn!(%own, %start, "by the local clock, the certificates are not valid yet");
            }
            own.max(start)
        };
        now.clamp(VALID_RANGE.0, VALID_RANGE.1)
    }

    /// Logs a jump of the wall clock relative to the uptime.
    fn check_jump(&mut self, own: Timestamp) {
        let uptime = self.env.uptime();
        let Some((then, at)) = self.last.replace((own, uptime)) else { return };
        let passed = SignedDuration::try_from(uptime.saturating_sub(at)).unwrap_or_default();
        let jump = then.duration_until(own).saturating_sub(passed);
        if jump.abs() > SKEW {
            tracing::warn!(seconds = jump.as_secs(), "the wall clock jumped");
        }
    }
}
