//! Metrics of certificates.

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::MetricsRegistry;
use crate::{label_set, label_values};

/// Expiry, rotations and failures of the certificates of a process.
#[derive(Debug, Clone, Default)]
pub struct CertificateMetrics {
    serving_expiry: Gauge,
    authority_expiry: Gauge,
    rotations: Family<RotationLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
}

label_values!(
    /// The kind of a new certificate.
    pub(super) Rotated {
        /// A self-signed certificate authority.
        Authority => "authority",
        /// A serving certificate that the authority signed.
        Serving => "serving",
        /// A serving certificate that the program read from files.
        Files => "files",
    }
);

label_values!(
    /// The step that failed.
    pub(super) Stage {
        /// Reading or writing the Secret.
        Secret => "secret",
        /// Reading or patching a `caBundle`.
        Bundle => "bundle",
        /// Reading the files.
        Files => "files",
        /// Issuing or loading a certificate.
        Certificate => "certificate",
    }
);

label_set!(RotationLabels { certificate: Rotated });
label_set!(FailureLabels { stage: Stage });

impl CertificateMetrics {
    /// Registers the metrics.
    pub fn new(registry: &mut MetricsRegistry) -> Self {
        let (rotations, failures) = (Family::default(), Family::default());
        // Every series exists from the start, so that an alert sees its first increase.
        for certificate in Rotated::ALL {
            drop(rotations.get_or_create(&RotationLabels { certificate: *certificate }));
        }
        for stage in Stage::ALL {
            drop(failures.get_or_create(&FailureLabels { stage: *stage }));
        }
        Self {
            serving_expiry: registry.register(
                "vmpool_tls_certificate_expiry_timestamp_seconds",
                "seconds",
                "When the serving certificate of this process expires, in Unix time; 0 while there is none",
                Gauge::default(),
            ),
            authority_expiry: registry.register(
                "vmpool_tls_ca_expiry_timestamp_seconds",
                "seconds",
                "When the self-signed certificate authority that signs the next certificate expires, in Unix time; 0 if there is none",
                Gauge::default(),
            ),
            rotations: registry.register(
                "vmpool_tls_rotations_total",
                "certificates",
                "Certificates that this process issued or read from files",
                rotations,
            ),
            failures: registry.register(
                "vmpool_tls_failures_total",
                "failures",
                "Failures while certificates were issued, read or published. The process retries after each",
                failures,
            ),
        }
    }

    pub(super) fn expiries(&self, serving: Option<Timestamp>, authority: Option<Timestamp>) {
        self.serving_expiry.set(serving.map_or(0, Timestamp::as_second));
        self.authority_expiry.set(authority.map_or(0, Timestamp::as_second));
    }

    pub(super) fn rotated(&self, certificate: Rotated) {
        self.rotations.get_or_create(&RotationLabels { certificate }).inc();
    }

    pub(super) fn failed(&self, stage: Stage) {
        self.failures.get_or_create(&FailureLabels { stage }).inc();
    }

    #[cfg(test)]
    pub(super) fn rotations(&self, certificate: Rotated) -> u64 {
        self.rotations.get_or_create(&RotationLabels { certificate }).get()
    }

    #[cfg(test)]
    pub(super) fn failures(&self, stage: Stage) -> u64 {
        self.failures.get_or_create(&FailureLabels { stage }).get()
    }

    #[cfg(test)]
    pub(super) fn serving_expiry(&self) -> i64 {
        self.serving_expiry.get()
    }
}
