//! The flags, and the checked configuration that they become.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustls::pki_types::DnsName;

use crate::duration;

/// The shortest serving certificate, for tests: a third of it is what a replica has for a rotation, on a busy machine.
const SHORTEST: Duration = Duration::from_secs(15);
/// The longest: what clients accept of any authority.
const LONGEST: Duration = Duration::from_hours(24 * 825);

/// Flags about the HTTPS port and its certificate.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Serving")]
pub struct ServingArgs {
    /// Where to serve HTTPS; port 0 takes a free one and logs it
    #[arg(long, env = "VMPOOL_LISTEN_ADDRESS", value_name = "IP:PORT", default_value = "0.0.0.0:8443")]
    pub listen_address: SocketAddr,

    /// Keep a self-signed certificate and its authority in this Secret, shared by all replicas
    #[arg(long, env = "VMPOOL_TLS_SECRET", value_name = "NAMESPACE/NAME")]
    pub tls_secret: Option<String>,

    /// DNS names and IP addresses that the self-signed certificate is for
    #[arg(long, env = "VMPOOL_TLS_DNS_NAMES", value_name = "NAME,...", value_delimiter = ',')]
    pub tls_dns_names: Vec<String>,

    /// How long a self-signed certificate is valid; it is replaced when a third of that is left. Less than an hour suits
    /// tests only
    #[arg(long, env = "VMPOOL_TLS_VALIDITY", value_name = "DURATION", default_value = "2160h", value_parser = duration::parse)]
    pub tls_validity: Duration,

    /// Keep the caBundle of `validatingwebhookconfigurations/NAME` or `apiservices/NAME` right; may be repeated
    #[arg(long, env = "VMPOOL_CA_BUNDLE_OF", value_name = "RESOURCE/NAME", value_delimiter = ',')]
    pub ca_bundle_of: Vec<BundleOf>,

    /// Serve the certificate chain of this PEM file instead, and follow its changes
    #[arg(long, env = "VMPOOL_TLS_CERT_FILE", value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// The PEM file with the private key of --tls-cert-file
    #[arg(long, env = "VMPOOL_TLS_PRIVATE_KEY_FILE", value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
}

/// Where the certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The replicas make it.
    SelfSigned {
        /// Namespace and name of the Secret.
        secret: (String, String),
        /// DNS names and IP addresses, at least one.
        names: Vec<String>,
        /// How long a serving certificate is valid.
        validity: Duration,
        /// Whose bundles are kept.
        bundles: Vec<BundleOf>,
    },
    /// Somebody else makes it.
    Files {
        /// The chain.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
}

/// How to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingConfig {
    /// Where to listen.
    pub address: SocketAddr,
    /// By which certificate; for [`super::keep`].
    pub source: Source,
}

/// An object with a `caBundle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleOf {
    /// Every webhook of this ValidatingWebhookConfiguration that calls us.
    Webhooks(String),
    /// This APIService.
    ApiService(String),
}

/// What is wrong with flags that are right one by one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServingArgsError {
    /// There is no certificate.
    #[error(
        "name a certificate: --tls-secret with --tls-dns-names, or --tls-cert-file with --tls-private-key-file"
    )]
    NoSource,
    /// There are two.
    #[error("--tls-secret and --tls-cert-file exclude each other")]
    TwoSources,
    /// Half of a pair.
    #[error("--{present} needs --{missing}, too")]
    Half {
        /// The flag that is there.
        present: &'static str,
        /// The flag that is not.
        missing: &'static str,
    },
    /// Not the name of a Secret.
    #[error("--tls-secret must be NAMESPACE/NAME, not `{0}`")]
    Secret(String),
    /// Neither a name nor an address.
    #[error("--tls-dns-names: `{0}` is neither a DNS name nor an IP address")]
    Name(String),
    /// Too short or too long.
    #[error("--tls-validity must be between 15s and 19800h, which are 825 days, not {0:?}")]
    Validity(Duration),
    /// With files, bundles are the matter of those who make the files.
    #[error("--ca-bundle-of needs --tls-secret: with files, the bundle is kept by whoever makes them")]
    BundlesOfFiles,
}

impl ServingArgs {
    /// Checks the flags.
    ///
    /// # Errors
    /// [`ServingArgsError`], one line that names the flag.
    pub fn config(&self) -> Result<ServingConfig, ServingArgsError> {
        use ServingArgsError as Error;
        let source = match (&self.tls_secret, &self.tls_cert_file, &self.tls_private_key_file) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => return Err(Error::TwoSources),
            (Some(secret), None, None) => self.self_signed(secret)?,
            (None, Some(certificate), Some(key)) => {
                if !self.ca_bundle_of.is_empty() {
                    return Err(Error::BundlesOfFiles);
                }
                Source::Files { certificate: certificate.clone(), key: key.clone() }
            }
            (None, Some(_), None) => {
                return Err(Error::Half { present: "tls-cert-file", missing: "tls-private-key-file" });
            }
            (None, None, Some(_)) => {
                return Err(Error::Half { present: "tls-private-key-file", missing: "tls-cert-file" });
            }
            (None, None, None) => return Err(Error::NoSource),
        };
        Ok(ServingConfig { address: self.listen_address, source })
    }

    fn self_signed(&self, secret: &str) -> Result<Source, ServingArgsError> {
        let wrong = || ServingArgsError::Secret(secret.to_owned());
        let (namespace, name) = secret.split_once('/').ok_or_else(wrong)?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        let mut names = Vec::new();
        for given in self.tls_dns_names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            let canonical = canonical(given).ok_or_else(|| ServingArgsError::Name(given.to_owned()))?;
            if !names.contains(&canonical) {
                names.push(canonical);
            }
        }
        if names.is_empty() {
            return Err(ServingArgsError::Half { present: "tls-secret", missing: "tls-dns-names" });
        }
        if self.tls_validity < SHORTEST || self.tls_validity > LONGEST {
            return Err(ServingArgsError::Validity(self.tls_validity));
        }
        Ok(Source::SelfSigned {
            secret: (namespace.to_owned(), name.to_owned()),
            names,
            validity: self.tls_validity,
            bundles: self.ca_bundle_of.clone(),
        })
    }
}

/// A name as certificates have it: lower case, addresses in their shortest form.
fn canonical(name: &str) -> Option<String> {
    if let Ok(address) = IpAddr::from_str(name) {
        return Some(address.to_string());
    }
    let name = name.to_ascii_lowercase();
    DnsName::try_from(name.as_str()).is_ok().then_some(name)
}

impl FromStr for BundleOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some(("validatingwebhookconfigurations", name)) if is_name(name) => {
                Ok(Self::Webhooks(name.to_owned()))
            }
            Some(("apiservices", name)) if is_name(name) => Ok(Self::ApiService(name.to_owned())),
            _ => {
                Err(format!("`{text}` is neither validatingwebhookconfigurations/NAME nor apiservices/NAME"))
            }
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
            Self::ApiService(name) => write!(f, "apiservices/{name}"),
        }
    }
}
