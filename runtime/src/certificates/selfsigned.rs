//! Self-signed mode: passes over Secret, identity and bundles, for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use super::args::BundleOf;
use super::bundles::Bundles;
use super::clock::Clock;
use super::issue::{self, IssueError};
use super::material::{CA_CRT, CA_KEY, Material, TLS_CRT, TLS_KEY, data, encode};
use super::metrics::{CertificateMetrics, Rotated, Stage};
use super::plan::{Facing, Plan, Reason, plan};
use super::publish::{Left, Publisher};
use super::said::Said;
use super::secret::{RequestError, Store, Written};
use super::timing::Timing;
use crate::env::Env;
use crate::telemetry::with_causes;
use crate::tls::{Identity, TlsError};

/// The pause after the first pass that was not the last word; it doubles up to [`Timing::period`].
const PAUSE: Duration = Duration::from_secs(1);

/// What is kept right.
pub(super) struct Wanted {
    pub(super) secret: (String, String),
    pub(super) names: Vec<String>,
    pub(super) bundles: Vec<BundleOf>,
    pub(super) timing: Timing,
}

/// Keeps it right.
pub(super) struct Keeper {
    store: Store,
    publisher: Publisher,
    clock: Clock,
    names: Vec<String>,
    timing: Timing,
    identity: Identity,
    metrics: CertificateMetrics,
    env: Env,
    /// What the Secret held last, and what that means: reading it costs several signatures.
    known: Option<(Contents, Arc<Material>)>,
    /// What is shown: chain and key.
    shown: Option<(Vec<u8>, Vec<u8>)>,
    said: Said,
}

/// The data of a Secret.
type Contents = Option<BTreeMap<String, ByteString>>;

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error("reading Secret {object}")]
    Read { object: String, source: RequestError },
    #[error("writing Secret {object}")]
    Write { object: String, source: RequestError },
    #[error("making certificates for Secret {object}")]
    Issue { object: String, source: IssueError },
    #[error("showing the certificate of Secret {object}")]
    Show { object: String, source: TlsError },
}

impl Keeper {
    pub(super) fn new(
        client: Client,
        wanted: Wanted,
        identity: Identity,
        metrics: CertificateMetrics,
        env: Env,
    ) -> Self {
        let Wanted { secret, names, bundles, timing } = wanted;
        let bundles = Bundles::new(client.clone(), env.clone(), bundles, names.clone());
        Self {
            store: Store::new(client, secret, env.clone()),
            publisher: Publisher::new(bundles, metrics.clone(), env.clone()),
            clock: Clock::new(env.clone()),
            names,
            timing,
            identity,
            metrics,
            env,
            known: None,
            shown: None,
            said: Said::default(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut pause = PAUSE.min(self.timing.period);
        loop {
            let rest = match self.pass().await {
                Ok(Left::Settled) => {
                    pause = PAUSE.min(self.timing.period);
                    self.timing.period
                }
                Ok(Left::Unsettled) => next(&mut pause, self.timing.period),
                Err(error) => {
                    self.metrics.failed(stage(&error));
                    tracing::warn!(error = with_causes(&error), "certificates are not kept for now");
                    next(&mut pause, self.timing.period)
                }
            };
            // Replicas that were started together should not go on together.
            self.env.sleep(rest + self.env.jitter(rest / 4)).await;
        }
    }

    async fn pass(&mut self) -> Result<Left, PassError> {
        let object = self.store.object();
        let looked = self.publisher.look().await;
        let read =
            self.store.read().await.map_err(|source| PassError::Read { object: object.clone(), source })?;
        let mut secret = read.secret.unwrap_or_default();
        let mut material = self.material(&secret);
        let now = self.clock.now(read.date, &material);
        let in_place = self.publisher.in_place(data(&secret, CA_CRT), &looked);
        let spread = in_place.is_some_and(|time| time >= self.timing.spread);

        let plan = plan(&material, Facing { now, spread, names: &self.names });
        self.tell_plan(&plan, &material);
        let issued = |source| PassError::Issue { object: object.clone(), source };
        if self.carry_out(&plan, &material, &mut secret, now).map_err(issued)? {
            let write = self.store.write(secret.clone()).await;
            match write.map_err(|source| PassError::Write { object: object.clone(), source })? {
                Written::Stored => self.count(&plan),
                Written::Stale => {
                    tracing::info!(
                        secret = object,
                        "somebody else has changed the certificates, looking again"
                    );
                    return Ok(Left::Unsettled);
                }
            }
            material = self.material(&secret);
        }
        self.show(&secret, &material).map_err(|source| PassError::Show { object, source })?;
        Ok(self.publisher.publish(&looked, data(&secret, CA_CRT)).await)
    }

    fn material(&mut self, secret: &Secret) -> Arc<Material> {
        if let Some((contents, material)) = &self.known
            && *contents == secret.data
        {
            return Arc::clone(material);
        }
        let material = Arc::new(Material::read(secret));
        self.known = Some((secret.data.clone(), Arc::clone(&material)));
        material
    }

    /// Puts what is planned into `secret`. Returns whether that changed anything.
    fn carry_out(
        &self,
        plan: &Plan,
        material: &Material,
        secret: &mut Secret,
        now: Timestamp,
    ) -> Result<bool, IssueError> {
        let mut made: BTreeMap<String, ByteString> = BTreeMap::new();
        let mut put = |key: &str, bytes: Vec<u8>| made.insert(key.to_owned(), ByteString(bytes));
        let kept = plan.stay.iter().map(|&index| &material.bundle[index]);
        let authority =
            if plan.authority { Some(issue::authority(now, &self.timing, self.env.random())?) } else { None };
        if let Some(authority) = &authority {
            put(CA_KEY, authority.key.serialize_pem().into_bytes());
        }
        put(CA_CRT, encode(authority.iter().map(|authority| &authority.facts).chain(kept)));
        if plan.serving.is_some() {
            let stored = material.signer.as_ref().map(|(index, key)| (&material.bundle[*index], key));
            let signer = authority.as_ref().map(|authority| (&authority.facts, &authority.key)).or(stored);
            // The plan makes an authority where there is none.
            if let Some(signer) = signer {
                let serving = issue::serving(now, &self.timing, &self.names_for(plan, material), signer)?;
                put(TLS_CRT, encode(std::iter::once(&serving.facts)));
                put(TLS_KEY, serving.key.serialize_pem().into_bytes());
            }
        }
        let data = secret.data.get_or_insert_default();
        let before = data.clone();
        data.extend(made);
        if secret.metadata.resource_version.is_none() {
            secret.type_ = Some("kubernetes.io/tls".to_owned());
            let label = ("app.kubernetes.io/managed-by".to_owned(), "vmpool".to_owned());
            secret.metadata.labels.get_or_insert_default().extend([label]);
        }
        Ok(*secret.data.get_or_insert_default() != before)
    }

    /// The names of a new certificate. One that is made because a name is missing keeps the others.
    fn names_for(&self, plan: &Plan, material: &Material) -> Vec<String> {
        let mut names = self.names.clone();
        if plan.serving == Some(Reason::Names) {
            let present = material.serving.iter().flat_map(|serving| &serving.names);
            names.extend(present.filter(|name| !self.names.contains(name)).cloned());
        }
        names
    }

    fn show(&mut self, secret: &Secret, material: &Material) -> Result<(), TlsError> {
        let pair = (data(secret, TLS_CRT).to_vec(), data(secret, TLS_KEY).to_vec());
        if self.shown.as_ref() != Some(&pair) {
            self.identity.replace(&pair.0, &pair.1)?;
            self.shown = Some(pair);
            if let Some(serving) = &material.serving {
                tracing::info!(expires = %serving.ends, names = ?serving.names, "serving a new certificate");
            }
        }
        self.metrics.expiries(self.identity.expires(), material.authority().map(|authority| authority.ends));
        Ok(())
    }

    fn count(&self, plan: &Plan) {
        if plan.authority {
            self.metrics.rotated(Rotated::Authority);
        }
        if plan.serving.is_some() {
            self.metrics.rotated(Rotated::Serving);
        }
    }

    fn tell_plan(&mut self, plan: &Plan, material: &Material) {
        let secret = self.store.object();
        if plan.makes() {
            let damage = material.damage.join("; ");
            tracing::info!(secret, authority = plan.authority, serving = ?plan.serving, damage, "making certificates");
        }
        if self.said.is_new("authority", if plan.waits { "waits" } else { "signs" }) && plan.waits {
            tracing::info!(secret, "a new authority is published before it is used");
        }
    }
}

fn stage(error: &PassError) -> Stage {
    match error {
        PassError::Read { .. } | PassError::Write { .. } => Stage::Secret,
        PassError::Issue { .. } | PassError::Show { .. } => Stage::Certificate,
    }
}

/// The pause to take, and a longer one next time.
fn next(pause: &mut Duration, longest: Duration) -> Duration {
    let rest = *pause;
    *pause = (rest * 2).min(longest);
    rest
}
