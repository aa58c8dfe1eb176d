//! Reads the `caBundle` fields and writes the bundle into them.

use std::time::Duration;

use super::args::BundleOf;
use super::bundles::{BundleObjectState, Bundles};
use super::log_once::LogOnce;
use super::metrics::{CertificateMetrics, Stage};
use crate::env::Env;
use crate::telemetry::with_causes;

/// The result of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassResult {
    /// All certificates and bundles are up to date.
    Settled,
    /// Another pass is necessary soon.
    Unsettled,
}

/// The objects as one pass has read them; `None` for an object that could not be read.
pub(super) struct BundleObservation(Vec<(BundleOf, Option<BundleObjectState>)>);

/// Maintains the bundles of the objects.
pub(super) struct Publisher {
    bundles: Bundles,
    metrics: CertificateMetrics,
    env: Env,
    published: Option<Published>,
    log_once: LogOnce,
}

/// A bundle that all objects contain.
struct Published {
    bundle: Vec<u8>,
    /// The versions of the objects. If a version changes, the bundle may have been missing in between, and
    /// another replica may have restored it.
    versions: Vec<String>,
    /// The uptime of the first such read.
    since: Duration,
}

impl Publisher {
    pub(super) fn new(bundles: Bundles, metrics: CertificateMetrics, env: Env) -> Self {
        Self { bundles, metrics, env, published: None, log_once: LogOnce::default() }
    }

    /// Reads all objects.
    pub(super) async fn observe(&mut self) -> BundleObservation {
        let mut all = Vec::new();
        for object in self.bundles.objects.clone() {
            let observed = match self.bundles.read(&object).await {
                Ok(observed) => {
                    self.log_state(&object, &observed);
                    Some(observed)
                }
                Err(error) => {
                    self.metrics.failed(Stage::Bundle);
                    tracing::warn!(%object, error = with_causes(&error), "reading the object with the caBundle failed, retrying");
                    None
                }
            };
            all.push((object, observed));
        }
        BundleObservation(all)
    }

    /// How long all objects have contained `bundle`, as far as this process has read them. `None` if an
    /// object does not contain it.
    pub(super) fn published_for(
        &mut self,
        bundle: &[u8],
        observation: &BundleObservation,
    ) -> Option<Duration> {
        let all = || observation.0.iter().map(|(_, observed)| observed.as_ref());
        if !all().all(|observed| observed.is_some_and(|observed| observed.trusts(bundle))) {
            self.published = None;
            return None;
        }
        let versions: Vec<_> = all().flatten().map(|observed| observed.version().to_owned()).collect();
        let now = self.env.uptime();
        match &self.published {
            Some(known) if known.bundle == bundle && known.versions == versions => {
                Some(now.saturating_sub(known.since))
            }
            _ => {
                self.published = Some(Published { bundle: bundle.to_vec(), versions, since: now });
                Some(Duration::ZERO)
            }
        }
    }

    /// Writes `bundle` into the objects that do not contain it.
    pub(super) async fn publish(&self, observation: &BundleObservation, bundle: &[u8]) -> PassResult {
        let mut result = PassResult::Settled;
        for (object, observed) in &observation.0 {
            let Some(observed) = observed else {
                result = PassResult::Unsettled;
                continue;
            };
            if *observed == BundleObjectState::Missing {
                result = PassResult::Unsettled;
            }
            if observed.trusts(bundle) {
                continue;
            }
            // The next pass verifies the patch, or retries it after a conflict.
            result = PassResult::Unsettled;
            match self.bundles.patch(object, observed, bundle).await {
                Ok(true) => tracing::info!(%object, "updated the caBundle"),
                Ok(false) => tracing::debug!(%object, "another client changed the object; retrying"),
                Err(error) => {
                    self.metrics.failed(Stage::Bundle);
                    tracing::warn!(%object, error = with_causes(&error), "updating the caBundle failed, retrying");
                }
            }
        }
        result
    }

    fn log_state(&mut self, object: &BundleOf, observed: &BundleObjectState) {
        let name = object.to_string();
        match observed {
            BundleObjectState::Missing if self.log_once.is_new(&name, "missing") => {
                tracing::warn!(%object, "the object of --ca-bundle-of does not exist; waiting for it");
            }
            BundleObjectState::CallsOtherPrograms if self.log_once.is_new(&name, "foreign") => {
                tracing::warn!(%object, "the object of --ca-bundle-of calls none of the names in --tls-dns-names; not changing it");
            }
            BundleObjectState::CallsThisProgram { .. } if self.log_once.is_new(&name, "own") => {
                tracing::info!(%object, "maintaining the caBundle");
            }
            _ => {}
        }
    }
}
