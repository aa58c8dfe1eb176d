//! What is told about certificates.

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Registry;
use crate::{label_set, words};

/// Expiry, rotations and failures of the certificates of a process.
#[derive(Debug, Clone, Default)]
pub struct CertificateMetrics {
    serving_expiry: Gauge,
    authority_expiry: Gauge,
    rotations: Family<RotationLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
}

words!(
    /// What was made.
    pub(super) Made {
        /// An authority, self-signed.
        Authority => "authority",
        /// A serving certificate, self-signed mode.
        Serving => "serving",
        /// A serving certificate that came in files was taken up.
        Files => "files",
    }
);

words!(
    /// What failed.
    pub(super) Failed {
        /// Reading or writing the Secret.
        Secret => "secret",
        /// Reading or patching a `caBundle`.
        Bundle => "bundle",
        /// Reading the files.
        Files => "files",
        /// Making a certificate, or showing one.
        Certificate => "certificate",
    }
);

label_set!(RotationLabels { certificate: Made });
label_set!(FailureLabels { stage: Failed });

impl CertificateMetrics {
    /// Registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let (rotations, failures) = (Family::default(), Family::default());
        // A series that is there from the start can be alerted on from its first count.
        for certificate in Made::ALL {
            drop(rotations.get_or_create(&RotationLabels { certificate: *certificate }));
        }
        for stage in Failed::ALL {
            drop(failures.get_or_create(&FailureLabels { stage: *stage }));
        }
        Self {
            serving_expiry: registry.register(
                "vmpool_tls_certificate_expiry_timestamp_seconds",
                "seconds",
                "When the certificate ends that this process serves, in Unix time; 0 while it has none",
                Gauge::default(),
            ),
            authority_expiry: registry.register(
                "vmpool_tls_ca_expiry_timestamp_seconds",
                "seconds",
                "When the self-signed authority ends that signs next, in Unix time; 0 if there is none",
                Gauge::default(),
            ),
            rotations: registry.register(
                "vmpool_tls_rotations_total",
                "certificates",
                "Certificates that this process made, or took from files",
                rotations,
            ),
            failures: registry.register(
                "vmpool_tls_failures_total",
                "failures",
                "What went wrong about certificates; each is repeated",
                failures,
            ),
        }
    }

    pub(super) fn expiries(&self, serving: Option<Timestamp>, authority: Option<Timestamp>) {
        self.serving_expiry.set(serving.map_or(0, Timestamp::as_second));
        self.authority_expiry.set(authority.map_or(0, Timestamp::as_second));
    }

    pub(super) fn made(&self, certificate: Made) {
        self.rotations.get_or_create(&RotationLabels { certificate }).inc();
    }

    pub(super) fn failed(&self, stage: Failed) {
        self.failures.get_or_create(&FailureLabels { stage }).inc();
    }

    #[cfg(test)]
    pub(super) fn count(&self, certificate: Made) -> u64 {
        self.rotations.get_or_create(&RotationLabels { certificate }).get()
    }

    #[cfg(test)]
    pub(super) fn failures(&self, stage: Failed) -> u64 {
        self.failures.get_or_create(&FailureLabels { stage }).get()
    }

    #[cfg(test)]
    pub(super) fn serving_expiry(&self) -> i64 {
        self.serving_expiry.get()
    }
}
