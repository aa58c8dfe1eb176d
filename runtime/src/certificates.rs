//! The serving certificate of a process, kept right for ever.
//!
//! Without help, the replicas of a program make their certificates themselves: an authority (CA) and a serving
//! certificate of it in one Secret that all of them share, and the authority's certificate in the `caBundle` of those
//! who call them. Or the certificate comes in files, from cert-manager, and they follow the files.
//!
//! ```text
//!  one pass, once a minute        every write is guarded by the version that was read; the loser reads again
//!
//!  read the configurations ─> read the Secret ─> plan ─> write the Secret ─> show it ─> patch the configurations
//!   (whose bundle is theirs?)   (and the clock     (pure)  (if anything is due)  (Identity)  (if they differ)
//!                                of the API server)
//! ```
//!
//! - **A new authority** is published beside the old one before anything is signed with it: the Secret's `ca.crt` is the
//!   bundle of both, and `ca.key` already the new key. Only when every configuration was seen with that bundle for
//!   [`Timing::spread`] is a serving certificate of the new authority made. The old one stays in the bundle until it has
//!   expired; nobody has its key any more.
//! - **Configurations are read before the Secret**, and patched at the version that was read. Whoever patches has thus
//!   seen a Secret at least as new as the bundle that it replaces, so a slow replica cannot take a bundle back.
//! - **The clock that counts is the API server's**, because it is the one that verifies: its answers carry the time. Ours
//!   is used only where they do not, and a difference is logged.
//! - **Configurations that are not ours are left alone**: a webhook or an APIService whose service is none of our names
//!   calls somebody else.
//! - Keys are made by ring from the system's randomness and never logged.
//!
//! Rights: `get`, `create` and `update` on the Secret, `get` and `patch` on the named configurations.

mod args;
mod bundles;
mod clock;
mod files;
mod issue;
mod material;
mod metrics;
mod plan;
mod publish;
mod said;
mod secret;
mod selfsigned;
mod timing;

use kube::Client;

use crate::env::Env;
use crate::tls::Identity;

pub use args::{BundleOf, ServingArgs, ServingArgsError, ServingConfig, Source};
pub use metrics::CertificateMetrics;
pub use timing::Timing;

/// Keeps `identity` right, and in self-signed mode the Secret and the bundles, too. It never returns: failures are
/// logged, counted and repeated.
///
/// `identity` has a certificate as soon as [`Identity::is_ready`] says so, which suits a readiness check.
pub async fn keep(client: Client, source: Source, identity: Identity, metrics: CertificateMetrics, env: Env) {
    match source {
        Source::SelfSigned { secret, names, validity, bundles } => {
            let wanted = selfsigned::Wanted { secret, names, bundles, timing: Timing::new(validity) };
            selfsigned::Keeper::new(client, wanted, identity, metrics, env).run().await;
        }
        Source::Files { certificate, key } => {
            files::Follower::new(certificate, key, identity, metrics, env).run().await;
        }
    }
}

#[cfg(test)]
mod tests;
