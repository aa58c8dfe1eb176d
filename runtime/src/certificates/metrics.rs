//! What is told about certificates.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::{Label, Labels, Registry, Values};

/// Expiry, rotations and failures of the certificates of a process.
#[derive(Debug, Clone, Default)]
pub struct CertificateMetrics {
    serving_expiry: Gauge,
    authority_expiry: Gauge,
    rotations: Family<RotationLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
}

/// An enum whose values stand for themselves in a label.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $(#[doc = $meaning:literal] $variant:ident => $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum $name { $(#[doc = $meaning] $variant),+ }

        impl $name {
            const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$variant, $word, $meaning.trim_ascii())),+];

            fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            fn values() -> Values {
                Values::Words(Self::ALL.iter().map(|(_, word, meaning)| (*word, *meaning)).collect())
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                encoder.write_str(self.as_str())
            }
        }
    };
}

words!(
    /// What was made.
    Made {
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
    Failed {
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RotationLabels {
    certificate: Made,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    stage: Failed,
}

impl Labels for RotationLabels {
    fn labels() -> Vec<Label> {
        vec![Label { name: "certificate", values: Made::values() }]
    }
}

impl Labels for FailureLabels {
    fn labels() -> Vec<Label> {
        vec![Label { name: "stage", values: Failed::values() }]
    }
}

impl CertificateMetrics {
    /// Registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let (rotations, failures) = (Family::default(), Family::default());
        // A series that is there from the start can be alerted on from its first count.
        for (certificate, _, _) in Made::ALL {
            drop(rotations.get_or_create(&RotationLabels { certificate: *certificate }));
        }
        for (stage, _, _) in Failed::ALL {
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
