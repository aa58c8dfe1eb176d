//! The serving certificate of a process: it is created or read, and renewed.
//!
//! In self-signed mode, the replicas of a program share one Secret with a certificate authority (CA) and a
//! serving certificate. They also maintain the CA certificate in the `caBundle` of the objects through which
//! the API server calls them. In file mode, the process reads the certificate from files, for example of
//! cert-manager, and follows their changes.
//!
//! ```text
//!  one pass, once a minute        every write is guarded by the version that was read; after a conflict, the next pass retries
//!
//!  read the objects ─> read the Secret ─> plan ─> write the Secret ─> serve the certificate ─> patch the objects
//!  (caBundle fields)   (and the clock     (pure)  (if necessary)      (Identity)               (if they differ)
//!                       of the API server)
//! ```
//!
//! - **A new authority** is published beside the old one before it signs a certificate: `ca.crt` in the
//!   Secret contains both certificates, and `ca.key` already contains the new key. After every object has
//!   contained this bundle for [`Timing::spread`], a serving certificate of the new authority is created. The
//!   old authority stays in the bundle until it expires. Its key is deleted.
//! - **The objects are read before the Secret**, and patched at the version that was read. A replica that
//!   patches an object has therefore read a Secret that is at least as new as the bundle in the object, so a
//!   slow replica cannot restore an older bundle.
//! - **The clock of the API server decides**, because the API server validates the certificates. Its
//!   responses contain the time. The local clock is used only if a response contains no time, and a
//!   difference is logged.
//! - **Objects of other programs are not changed**: a webhook or an APIService whose service is not in
//!   `--tls-dns-names` belongs to another program.
//! - ring creates keys from the random numbers of the system. Keys are never logged.
//!
//! Permissions: `get`, `create` and `update` for the Secret, `get` and `patch` for the objects.

mod args;
mod bundles;
mod clock;
mod files;
mod issue;
mod log_once;
mod material;
mod metrics;
mod plan;
mod publisher;
mod secret;
mod self_signed;
mod timing;

use kube::Client;

use crate::env::Env;
use crate::tls::ServingIdentity;

pub use args::{
    BundleOf, BundleOfError, CertificateSource, SecretName, ServingArgs, ServingArgsError, ServingConfig,
};
pub use metrics::CertificateMetrics;
pub use timing::Timing;

/// Maintains the certificate of `identity`, and in self-signed mode also the Secret and the bundles. It never
/// returns: failures are logged, counted and retried.
///
/// Use [`ServingIdentity::is_ready`] as readiness check: it returns true after the first certificate is
/// available.
pub async fn maintain_certificate(
    client: Client,
    source: CertificateSource,
    identity: ServingIdentity,
    metrics: CertificateMetrics,
    env: Env,
) {
    match source {
        CertificateSource::SelfSigned { secret, names, validity, bundles } => {
            let desired = self_signed::Desired { secret, names, bundles, timing: Timing::new(validity) };
            self_signed::Maintainer::new(client, desired, identity, metrics, env).run().await;
        }
        CertificateSource::Files { certificate, key } => {
            files::FileReader::new(certificate, key, identity, metrics, env).run().await;
        }
    }
}

#[cfg(test)]
mod tests;
