//! Self-signed mode: maintains Secret, identity and bundles in passes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use super::args::{BundleOf, SecretName};
use super::bundles::Bundles;
use super::clock::CertificateClock;
use super::issue::{self, CertificateSigner, IssueError, Issued};
use super::log_once::LogOnce;
use super::material::{CA_CRT, CA_KEY, Material, TLS_CRT, TLS_KEY, encode_certificates, secret_data};
use super::metrics::{CertificateMetrics, Rotated, Stage};
use super::plan::{CertificatePlan, Inputs, IssueReason, plan_certificates};
use super::publisher::{PassResult, Publisher};
use super::secret::{RequestError, SecretStore, SecretWriteResult};
use super::timing::Timing;
use crate::env::Env;
use crate::telemetry::with_causes;
use crate::tls::{ServingIdentity, TlsError};

/// The pause after the first pass that failed or is not settled. It doubles up to [`Timing::period`].
const PAUSE: Duration = Duration::from_secs(1);

/// The desired state.
pub(super) struct Desired {
    pub(super) secret: SecretName,
    pub(super) names: Vec<String>,
    pub(super) bundles: Vec<BundleOf>,
    pub(super) timing: Timing,
}

/// Maintains the desired state.
pub(super) struct Maintainer {
    store: SecretStore,
    publisher: Publisher,
    clock: CertificateClock,
    names: Vec<String>,
    timing: Timing,
    identity: ServingIdentity,
    metrics: CertificateMetrics,
    env: Env,
    /// The last content of the Secret and its parsed material, because parsing verifies several signatures.
    parsed_secret: Option<(Contents, Arc<Material>)>,
    /// The served chain and key.
    served: Option<(Vec<u8>, Vec<u8>)>,
    log_once: LogOnce,
}

/// The data of a Secret.
type Contents = Option<BTreeMap<String, ByteString>>;

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error("reading Secret {object}")]
    Read { object: String, source: RequestError },
    #[error("writing Secret {object}")]
    Write { object: String, source: RequestError },
    #[error("issuing certificates for Secret {object}")]
    Issue { object: String, source: IssueError },
    #[error("loading the certificate of Secret {object}")]
    Load { object: String, source: TlsError },
}

impl Maintainer {
    pub(super) fn new(
        client: Client,
        desired: Desired,
        identity: ServingIdentity,
        metrics: CertificateMetrics,
        env: Env,
    ) -> Self {
        let Desired { secret, names, bundles, timing } = desired;
        let bundles = Bundles::new(client.clone(), env.clone(), bundles, names.clone());
        Self {
            store: SecretStore::new(client, secret, env.clone()),
            publisher: Publisher::new(bundles, metrics.clone(), env.clone()),
            clock: CertificateClock::new(env.clone()),
            names,
            timing,
            identity,
            metrics,
            env,
            parsed_secret: None,
            served: None,
            log_once: LogOnce::default(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut pause = PAUSE.min(self.timing.period);
        loop {
            let delay = match self.pass().await {
                Ok(PassResult::Settled) => {
                    pause = PAUSE.min(self.timing.period);
                    self.timing.period
                }
                Ok(PassResult::Unsettled) => next_backoff(&mut pause, self.timing.period),
                Err(error) => {
                    self.metrics.failed(failed_stage(&error));
                    tracing::warn!(error = with_causes(&error), "maintaining certificates failed, retrying");
                    next_backoff(&mut pause, self.timing.period)
                }
            };
            // Jitter, so that replicas that started together do not run passes at the same time.
            self.env.sleep(delay + self.env.jitter(delay / 4)).await;
        }
    }

    async fn pass(&mut self) -> Result<PassResult, PassError> {
        let object = self.store.object();
        let observation = self.publisher.observe().await;
        let read =
            self.store.read().await.map_err(|source| PassError::Read { object: object.clone(), source })?;
        let mut secret = read.secret.unwrap_or_default();
        let mut material = self.material(&secret);
        let now = self.clock.now(read.date, &material);
        let published_for = self.publisher.published_for(secret_data(&secret, CA_CRT), &observation);
        let spread = published_for.is_some_and(|time| time >= self.timing.spread);

        let plan = plan_certificates(&material, Inputs { now, spread, names: &self.names });
        self.log_plan(&plan, &material);
        let issued = |source| PassError::Issue { object: object.clone(), source };
        if self.apply(&plan, &material, &mut secret, now).map_err(issued)? {
            let write = self.store.write(secret.clone()).await;
            match write.map_err(|source| PassError::Write { object: object.clone(), source })? {
                SecretWriteResult::Stored => self.count(&plan),
                SecretWriteResult::Stale => {
                    tracing::info!(secret = object, "another client changed the Secret; retrying");
                    return Ok(PassResult::Unsettled);
                }
            }
            material = self.material(&secret);
        }
        self.serve(&secret, &material).map_err(|source| PassError::Load { object, source })?;
        Ok(self.publisher.publish(&observation, secret_data(&secret, CA_CRT)).await)
    }

    fn material(&mut self, secret: &Secret) -> Arc<Material> {
        if let Some((contents, material)) = &self.parsed_secret
            && *contents == secret.data
        {
            return Arc::clone(material);
        }
        let material = Arc::new(Material::read(secret));
        self.parsed_secret = Some((secret.data.clone(), Arc::clone(&material)));
        material
    }

    /// Applies the plan to `secret`. Returns whether `secret` has changed.
    fn apply(
        &self,
        plan: &CertificatePlan,
        material: &Material,
        secret: &mut Secret,
        now: Timestamp,
    ) -> Result<bool, IssueError> {
        let mut changed: BTreeMap<String, ByteString> = BTreeMap::new();
        let mut put = |key: &str, bytes: Vec<u8>| changed.insert(key.to_owned(), ByteString(bytes));
        let retained = plan.retained.iter().map(|&index| &material.bundle[index]);
        let authority = if plan.authority {
            Some(issue::issue_authority(now, &self.timing, self.env.random())?)
        } else {
            None
        };
        if let Some(authority) = &authority {
            put(CA_KEY, authority.key.serialize_pem().into_bytes());
        }
        put(
            CA_CRT,
            encode_certificates(authority.iter().map(|authority| &authority.certificate).chain(retained)),
        );
        if plan.serving.is_some() {
            let signer = match (&authority, &material.signer) {
                (Some(Issued { certificate, key }), _) => Some(CertificateSigner { certificate, key }),
                (None, Some((index, key))) => {
                    Some(CertificateSigner { certificate: &material.bundle[*index], key })
                }
                (None, None) => None,
            };
            // If there is no authority, the plan contains a new one.
            if let Some(signer) = signer {
                let serving = issue::issue_serving_certificate(
                    now,
                    &self.timing,
                    &self.names_for(plan, material),
                    signer,
                )?;
                put(TLS_CRT, encode_certificates(std::iter::once(&serving.certificate)));
                put(TLS_KEY, serving.key.serialize_pem().into_bytes());
            }
        }
        let data = secret.data.get_or_insert_default();
        let before = data.clone();
        data.extend(changed);
        if secret.metadata.resource_version.is_none() {
            secret.type_ = Some("kubernetes.io/tls".to_owned());
            let label = ("app.kubernetes.io/managed-by".to_owned(), "vmpool".to_owned());
            secret.metadata.labels.get_or_insert_default().extend([label]);
        }
        Ok(*secret.data.get_or_insert_default() != before)
    }

    /// The names of a new certificate. If it is issued for a missing name, it keeps the existing names.
    fn names_for(&self, plan: &CertificatePlan, material: &Material) -> Vec<String> {
        let mut names = self.names.clone();
        if plan.serving == Some(IssueReason::Names) {
            let present = material.serving.iter().flat_map(|serving| &serving.names);
            names.extend(present.filter(|name| !self.names.contains(name)).cloned());
        }
        names
    }

    fn serve(&mut self, secret: &Secret, material: &Material) -> Result<(), TlsError> {
        let pair = (secret_data(secret, TLS_CRT).to_vec(), secret_data(secret, TLS_KEY).to_vec());
        if self.served.as_ref() != Some(&pair) {
            self.identity.replace(&pair.0, &pair.1)?;
            self.served = Some(pair);
            if let Some(serving) = &material.serving {
                tracing::info!(expires = %serving.not_after, names = ?serving.names, "serving a new certificate");
            }
        }
        self.metrics
            .expiries(self.identity.expires(), material.authority().map(|authority| authority.not_after));
        Ok(())
    }

    fn count(&self, plan: &CertificatePlan) {
        if plan.authority {
            self.metrics.rotated(Rotated::Authority);
        }
        if plan.serving.is_some() {
            self.metrics.rotated(Rotated::Serving);
        }
    }

    fn log_plan(&mut self, plan: &CertificatePlan, material: &Material) {
        let secret = self.store.object();
        if plan.issues() {
            let problems = material.problems.join("; ");
            tracing::info!(secret, authority = plan.authority, serving = ?plan.serving, problems, "issuing certificates");
        }
        if self.log_once.is_new("authority", if plan.is_waiting { "waiting" } else { "signing" })
            && plan.is_waiting
        {
            tracing::info!(secret, "publishing the new authority before it signs certificates");
        }
    }
}

fn failed_stage(error: &PassError) -> Stage {
    match error {
        PassError::Read { .. } | PassError::Write { .. } => Stage::Secret,
        PassError::Issue { .. } | PassError::Load { .. } => Stage::Certificate,
    }
}

/// Returns the pause and doubles it for the next call, up to `max`.
fn next_backoff(pause: &mut Duration, max: Duration) -> Duration {
    let delay = *pause;
    *pause = (delay * 2).min(max);
    delay
}
