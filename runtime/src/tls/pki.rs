//! Certificate authorities and certificates for tests.

use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{ClientConfig, RootCertStore};

use super::pem::private_key;
use super::{crypto_provider, parse_certificates};

pub(crate) struct Ca(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
pub(crate) struct Leaf {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn serving(&self, name: &str) -> Leaf {
        self.leaf(CertificateParams::new([name.to_owned()]).unwrap(), ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub(crate) fn client(&self, common_names: &[&str]) -> Leaf {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        // rcgen writes only one attribute of each type.
        for name in common_names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        self.leaf(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    pub(crate) fn serving_until(&self, name: &str, end: Timestamp) -> Leaf {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        let seconds = u64::try_from(end.as_second()).unwrap();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds);
        self.leaf(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn leaf(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Leaf {
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Leaf { chain: certificate.pem(), key: key.serialize_pem() }
    }
}

/// The configuration of a client that trusts the authorities in `bundle` and has the certificate `own`.
pub(crate) fn client_tls_config(bundle: &[u8], own: Option<&Leaf>, alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for der in parse_certificates("bundle", bundle).unwrap() {
        roots.add(der).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = parse_certificates("own", own.chain.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, private_key("own", own.key.as_bytes()).unwrap()).unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}
