//! The bundle where it is looked for: read, watched over, put right.

use std::time::Duration;

use super::args::BundleOf;
use super::bundles::{Bundles, Seen};
use super::metrics::{CertificateMetrics, Stage};
use super::said::Said;
use crate::env::Env;
use crate::telemetry::with_causes;

/// What a pass leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing to do for now.
    Settled,
    /// Something to look at soon.
    Unsettled,
}

/// The configurations, as one pass has read them; nothing for one that could not be read.
pub(super) struct Looked(Vec<(BundleOf, Option<Seen>)>);

/// Looks after the configurations.
pub(super) struct Publisher {
    bundles: Bundles,
    metrics: CertificateMetrics,
    env: Env,
    in_place: Option<InPlace>,
    said: Said,
}

/// A bundle that every configuration has.
struct InPlace {
    bundle: Vec<u8>,
    /// The versions of the configurations. If one changes, the bundle may have been away in between: another replica puts
    /// it back before this one looks again.
    versions: Vec<String>,
    /// Uptime when this was first seen.
    since: Duration,
}

impl Publisher {
    pub(super) fn new(bundles: Bundles, metrics: CertificateMetrics, env: Env) -> Self {
        Self { bundles, metrics, env, in_place: None, said: Said::default() }
    }

    /// Reads every configuration.
    pub(super) async fn look(&mut self) -> Looked {
        let mut all = Vec::new();
        for object in self.bundles.objects.clone() {
            let seen = match self.bundles.read(&object).await {
                Ok(seen) => {
                    self.say(&object, &seen);
                    Some(seen)
                }
                Err(error) => {
                    self.metrics.failed(Stage::Bundle);
                    tracing::warn!(%object, error = with_causes(&error), "its caBundle cannot be read");
                    None
                }
            };
            all.push((object, seen));
        }
        Looked(all)
    }

    /// For how long every configuration has had `bundle`, as far as this process has seen; nothing if one has not.
    pub(super) fn in_place(&mut self, bundle: &[u8], looked: &Looked) -> Option<Duration> {
        let all = || looked.0.iter().map(|(_, seen)| seen.as_ref());
        if !all().all(|seen| seen.is_some_and(|seen| seen.trusts(bundle))) {
            self.in_place = None;
            return None;
        }
        let versions: Vec<_> = all().flatten().map(|seen| seen.version().to_owned()).collect();
        let now = self.env.uptime();
        match &self.in_place {
            Some(known) if known.bundle == bundle && known.versions == versions => {
                Some(now.saturating_sub(known.since))
            }
            _ => {
                self.in_place = Some(InPlace { bundle: bundle.to_vec(), versions, since: now });
                Some(Duration::ZERO)
            }
        }
    }

    /// Puts `bundle` where another one was seen.
    pub(super) async fn publish(&self, looked: &Looked, bundle: &[u8]) -> Left {
        let mut left = Left::Settled;
        for (object, seen) in &looked.0 {
            let Some(seen) = seen else {
                left = Left::Unsettled;
                continue;
            };
            if *seen == Seen::Missing {
                left = Left::Unsettled;
            }
            if seen.trusts(bundle) {
                continue;
            }
            // To be seen in place, or, if somebody was faster, to be tried again.
            left = Left::Unsettled;
            match self.bundles.patch(object, seen, bundle).await {
                Ok(true) => tracing::info!(%object, "its caBundle was put right"),
                Ok(false) => tracing::debug!(%object, "changed by somebody else meanwhile"),
                Err(error) => {
                    self.metrics.failed(Stage::Bundle);
                    tracing::warn!(%object, error = with_causes(&error), "its caBundle cannot be put right");
                }
            }
        }
        left
    }

    fn say(&mut self, object: &BundleOf, seen: &Seen) {
        let name = object.to_string();
        match seen {
            Seen::Missing if self.said.is_new(&name, "missing") => {
                tracing::warn!(%object, "its caBundle would be kept, but it does not exist; waiting for it");
            }
            Seen::Foreign if self.said.is_new(&name, "foreign") => {
                tracing::warn!(%object, "its caBundle is left alone: it calls none of the names of --tls-dns-names");
            }
            Seen::Ours { .. } if self.said.is_new(&name, "ours") => {
                tracing::info!(%object, "its caBundle is kept");
            }
            _ => {}
        }
    }
}
