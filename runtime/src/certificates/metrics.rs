//! Metrics of certificates.

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::family_with_series;
use crate::{label_set, label_values, metric_table};

metric_table!(
    /// Expiry, rotations and failures of the certificates of a process.
    #[derive(Debug, Clone, Default)]
    pub struct CertificateMetrics {
        /// When the serving certificate of this process expires, in Unix time; 0 while there is none.
        serving_expiry: Gauge = "vmpool_tls_certificate_expiry_timestamp_seconds" in "seconds";
        /// When the self-signed certificate authority that signs the next certificate expires, in Unix time;
        /// 0 if there is none.
        authority_expiry: Gauge = "vmpool_tls_ca_expiry_timestamp_seconds" in "seconds";
        /// Certificates that this process issued or read from files.
        rotations: Family<RotationLabels, Counter> = "vmpool_tls_rotations_total" in "certificates",
            family_with_series();
        /// Failures while certificates were issued, read or published. The process retries after each.
        failures: Family<FailureLabels, Counter> = "vmpool_tls_failures_total" in "failures",
            family_with_series();
    }
);

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
