//! The flags of the HTTPS port, and their validation.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustls::pki_types::DnsName;

use crate::duration;

/// The minimum validity of a serving certificate, for tests. A replica must rotate it within a third of this
/// time, even on a busy machine.
const MIN_VALIDITY: Duration = Duration::from_secs(15);
/// The maximum validity of a serving certificate that all clients accept.
const MAX_VALIDITY: Duration = Duration::from_hours(24 * 825);

/// Flags of the HTTPS port and its certificate.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Serving")]
pub struct ServingArgs {
    /// Address and port for HTTPS. Port 0 selects a free port, which is logged
    #[arg(long, env = "VMPOOL_LISTEN_ADDRESS", value_name = "IP:PORT", default_value = "0.0.0.0:8443")]
    pub listen_address: SocketAddr,

    /// Store a self-signed certificate and its authority in this Secret, which all replicas share
    #[arg(long, env = "VMPOOL_TLS_SECRET", value_name = "NAMESPACE/NAME")]
    pub tls_secret: Option<String>,

    /// DNS names and IP addresses of the self-signed certificate
    #[arg(long, env = "VMPOOL_TLS_DNS_NAMES", value_name = "NAME,...", value_delimiter = ',')]
    pub tls_dns_names: Vec<String>,

    /// Validity of a self-signed certificate. It is replaced when a third of this time is left. Less than an
    /// hour is suitable for tests only
    #[arg(long, env = "VMPOOL_TLS_VALIDITY", value_name = "DURATION", default_value = "2160h", value_parser = duration::parse_duration)]
    pub tls_validity: Duration,

    /// Maintain the caBundle of `validatingwebhookconfigurations/NAME`, `mutatingwebhookconfigurations/NAME`
    /// or `apiservices/NAME`. The flag can be repeated
    #[arg(long, env = "VMPOOL_CA_BUNDLE_OF", value_name = "RESOURCE/NAME", value_delimiter = ',')]
    pub ca_bundle_of: Vec<BundleOf>,

    /// Use the certificate chain in this PEM file instead. Changes of the file take effect without a restart
    #[arg(long, env = "VMPOOL_TLS_CERT_FILE", value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// PEM file with the private key of --tls-cert-file
    #[arg(long, env = "VMPOOL_TLS_PRIVATE_KEY_FILE", value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
}

/// The name of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretName {
    /// The namespace.
    pub namespace: String,
    /// The name in the namespace.
    pub name: String,
}

/// The source of the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// The replicas create the certificate.
    SelfSigned {
        /// The Secret with the certificate.
        secret: SecretName,
        /// DNS names and IP addresses, at least one.
        names: Vec<String>,
        /// The validity of a serving certificate.
        validity: Duration,
        /// The objects whose bundles are maintained.
        bundles: Vec<BundleOf>,
    },
    /// The certificate is read from files.
    Files {
        /// The file with the chain.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
}

/// The validated options of the HTTPS port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingConfig {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The source of the certificate, for [`maintain_certificate`](super::maintain_certificate).
    pub source: CertificateSource,
}

/// An object with a `caBundle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleOf {
    /// All webhooks of this ValidatingWebhookConfiguration that call this program.
    Webhooks(String),
    /// All webhooks of this MutatingWebhookConfiguration that call this program.
    MutatingWebhooks(String),
    /// This APIService.
    ApiService(String),
}

/// Why the flags are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServingArgsError {
    /// No source of the certificate is set.
    #[error(
        "no certificate source: set --tls-secret and --tls-dns-names, or --tls-cert-file and --tls-private-key-file"
    )]
    NoSource,
    /// Two sources of the certificate are set.
    #[error("--tls-secret and --tls-cert-file are both set: use one of them")]
    TwoSources,
    /// One flag of a pair is missing.
    #[error("--{present} requires --{missing}")]
    Incomplete {
        /// The flag that is set.
        present: &'static str,
        /// The missing flag.
        missing: &'static str,
    },
    /// The name of the Secret is invalid.
    #[error("--tls-secret must be NAMESPACE/NAME, not `{0}`")]
    Secret(String),
    /// An entry is neither a DNS name nor an IP address.
    #[error("--tls-dns-names: `{0}` is neither a DNS name nor an IP address")]
    Name(String),
    /// The validity is outside its range.
    #[error("--tls-validity must be between 15s and 19800h, which are 825 days, not {0:?}")]
    Validity(Duration),
    /// Bundles are maintained in self-signed mode only.
    #[error(
        "--ca-bundle-of requires --tls-secret: with --tls-cert-file, the issuer of the files maintains the bundle"
    )]
    BundlesOfFiles,
}

impl ServingArgs {
    /// Validates the flags.
    ///
    /// # Errors
    /// [`ServingArgsError`], which names the flag.
    pub fn config(&self) -> Result<ServingConfig, ServingArgsError> {
        use ServingArgsError as Error;
        let source = match (&self.tls_secret, &self.tls_cert_file, &self.tls_private_key_file) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => return Err(Error::TwoSources),
            (Some(secret), None, None) => self.self_signed(secret)?,
            (None, Some(certificate), Some(key)) => {
                if !self.ca_bundle_of.is_empty() {
                    return Err(Error::BundlesOfFiles);
                }
                CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
            }
            (None, Some(_), None) => {
                return Err(Error::Incomplete { present: "tls-cert-file", missing: "tls-private-key-file" });
            }
            (None, None, Some(_)) => {
                return Err(Error::Incomplete { present: "tls-private-key-file", missing: "tls-cert-file" });
            }
            (None, None, None) => return Err(Error::NoSource),
        };
        Ok(ServingConfig { address: self.listen_address, source })
    }

    fn self_signed(&self, secret: &str) -> Result<CertificateSource, ServingArgsError> {
        let invalid = || ServingArgsError::Secret(secret.to_owned());
        let (namespace, name) = secret.split_once('/').ok_or_else(invalid)?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(invalid());
        }
        let mut names = Vec::new();
        for given in self.tls_dns_names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            let canonical =
                canonical_server_name(given).ok_or_else(|| ServingArgsError::Name(given.to_owned()))?;
            if !names.contains(&canonical) {
                names.push(canonical);
            }
        }
        if names.is_empty() {
            return Err(ServingArgsError::Incomplete { present: "tls-secret", missing: "tls-dns-names" });
        }
        if self.tls_validity < MIN_VALIDITY || self.tls_validity > MAX_VALIDITY {
            return Err(ServingArgsError::Validity(self.tls_validity));
        }
        Ok(CertificateSource::SelfSigned {
            secret: SecretName { namespace: namespace.to_owned(), name: name.to_owned() },
            names,
            validity: self.tls_validity,
            bundles: self.ca_bundle_of.clone(),
        })
    }
}

/// A name in the form of certificates: lower case, and addresses in their canonical form.
fn canonical_server_name(name: &str) -> Option<String> {
    if let Ok(address) = IpAddr::from_str(name) {
        return Some(address.to_string());
    }
    let name = name.to_ascii_lowercase();
    DnsName::try_from(name.as_str()).is_ok().then_some(name)
}

/// The text does not name an object with a `caBundle`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither validatingwebhookconfigurations/NAME, mutatingwebhookconfigurations/NAME nor apiservices/NAME"
)]
pub struct BundleOfError(String);

impl FromStr for BundleOf {
    type Err = BundleOfError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some(("validatingwebhookconfigurations", name)) if is_name(name) => {
                Ok(Self::Webhooks(name.to_owned()))
            }
            Some(("mutatingwebhookconfigurations", name)) if is_name(name) => {
                Ok(Self::MutatingWebhooks(name.to_owned()))
            }
            Some(("apiservices", name)) if is_name(name) => Ok(Self::ApiService(name.to_owned())),
            _ => Err(BundleOfError(text.to_owned())),
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}

impl fmt::Display for BundleOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Webhooks(name) => write!(f, "validatingwebhookconfigurations/{name}"),
            Self::MutatingWebhooks(name) => write!(f, "mutatingwebhookconfigurations/{name}"),
            Self::ApiService(name) => write!(f, "apiservices/{name}"),
        }
    }
}
