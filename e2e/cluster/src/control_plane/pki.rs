//! Keys, certificates and kubeconfigs of one cluster.
//!
//! ```text
//! ca ──────────┬─ serving certificate of kube-apiserver
//!              ├─ admin                (O=system:masters)
//!              ├─ kube-controller-manager
//!              └─ on a node: kubelet, kubelet-client, kube-proxy, kube-scheduler
//! front-proxy-ca ── front-proxy-client   authenticates the API server to aggregated API servers
//! service-account key pair               signs and verifies tokens
//! ```

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// The keys and certificates of a control plane, as files.
#[derive(Debug, Clone)]
pub struct Pki {
    directory: PathBuf,
}

type Authority = Issuer<'static, KeyPair>;

impl Pki {
    /// Creates all keys and certificates in `directory`.
    ///
    /// # Errors
    /// [`Error::Certificate`] and [`Error::File`].
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory).map_err(Error::file("creating", directory))?;
        let pki = Self { directory: directory.to_owned() };
        let ca = pki.authority("ca")?;
        let node = crate::namespaces::ADDRESS.to_string();
        let names = ["localhost", "127.0.0.1", "10.0.0.1", &node, "kubernetes.default.svc", "kubernetes"];
        let mut serving = params("kube-apiserver", None, &names)?;
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        pki.issue(&ca, "apiserver", &serving)?;
        pki.issue(&ca, "admin", &client("admin", Some("system:masters"))?)?;
        let manager = "kube-controller-manager";
        pki.issue(&ca, manager, &client("system:kube-controller-manager", None)?)?;
        pki.issue(&ca, "kubelet", &client("system:node:node", Some("system:nodes"))?)?;
        pki.issue(&ca, "kubelet-client", &client("kubelet-client", Some("system:masters"))?)?;
        pki.issue(&ca, "kube-proxy", &client("system:kube-proxy", None)?)?;
        pki.issue(&ca, "kube-scheduler", &client("system:kube-scheduler", None)?)?;
        let front = pki.authority("front-proxy-ca")?;
        pki.issue(&front, "front-proxy-client", &client("front-proxy-client", None)?)?;

        let signer = key("service accounts")?;
        pki.write("service-account.key", &signer.serialize_pem())?;
        pki.write("service-account.pub", &signer.public_key_pem())?;
        Ok(pki)
    }

    /// Path of a certificate.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.crt"))
    }

    /// Path of a private key.
    pub fn key(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.key"))
    }

    /// Path of the public key that verifies service account tokens.
    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.directory.join("service-account.pub")
    }

    /// Writes a kubeconfig with the client certificate `name`, and returns its path.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn certificate_kubeconfig(&self, name: &str, server: &str) -> Result<PathBuf> {
        let user = json!({ "client-certificate": self.certificate(name), "client-key": self.key(name) });
        self.kubeconfig(name, server, "default", &user)
    }

    /// Writes a kubeconfig with a bearer token, and returns its path.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn token_kubeconfig(
        &self,
        name: &str,
        server: &str,
        namespace: &str,
        token: &str,
    ) -> Result<PathBuf> {
        self.kubeconfig(name, server, namespace, &json!({ "token": token }))
    }

    /// Writes a kubeconfig without credentials, and returns its path.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn bare_kubeconfig(&self, name: &str, server: &str) -> Result<PathBuf> {
        self.kubeconfig(name, server, "default", &json!({}))
    }

    fn kubeconfig(&self, name: &str, server: &str, namespace: &str, user: &Value) -> Result<PathBuf> {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "test", "cluster": {
                "server": server, "certificate-authority": self.certificate("ca") } }],
            "users": [{ "name": name, "user": user }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": name, "namespace": namespace } }],
            "current-context": "test",
        });
        // JSON is valid YAML.
        self.write(&format!("{name}.kubeconfig"), &config.to_string())
    }

    fn authority(&self, name: &'static str) -> Result<Authority> {
        let key_pair = key(name)?;
        let mut params = params(name, None, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate =
            params.self_signed(&key_pair).map_err(|source| Error::Certificate { subject: name, source })?;
        self.write(&format!("{name}.crt"), &certificate.pem())?;
        Ok(Issuer::new(params, key_pair))
    }

    fn issue(&self, ca: &Authority, name: &'static str, params: &CertificateParams) -> Result<()> {
        let key_pair = key(name)?;
        let certificate =
            params.signed_by(&key_pair, ca).map_err(|source| Error::Certificate { subject: name, source })?;
        self.write(&format!("{name}.crt"), &certificate.pem())?;
        self.write(&format!("{name}.key"), &key_pair.serialize_pem())?;
        Ok(())
    }

    fn write(&self, file: &str, text: &str) -> Result<PathBuf> {
        let path = self.directory.join(file);
        std::fs::write(&path, text).map_err(Error::file("writing", &path))?;
        Ok(path)
    }
}

fn key(subject: &'static str) -> Result<KeyPair> {
    KeyPair::generate().map_err(|source| Error::Certificate { subject, source })
}

fn params(
    name: &'static str,
    organization: Option<&str>,
    alternative_names: &[&str],
) -> Result<CertificateParams> {
    let names: Vec<String> = alternative_names.iter().map(|&name| name.to_owned()).collect();
    let mut params =
        CertificateParams::new(names).map_err(|source| Error::Certificate { subject: name, source })?;
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    Ok(params)
}

fn client(name: &'static str, organization: Option<&str>) -> Result<CertificateParams> {
    let mut params = params(name, organization, &[])?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}
