//! Clients and kubeconfigs of service accounts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use super::running::ControlPlane;
use crate::error::{Error, Result};

/// Longer than any run and any forgotten playground, so that no program needs a second token.
const TOKEN_SECONDS: i64 = 90 * 24 * 60 * 60;

/// Maximum time without data on a connection. The API server's own timeout is one minute, and it ends watches
/// sooner than this.
const SILENCE: Duration = Duration::from_secs(90);

/// A client for a kubeconfig, without retries.
///
/// # Errors
/// [`Error::Kubeconfig`] or [`Error::Api`].
pub async fn client_from_kubeconfig(kubeconfig: &Path) -> Result<Client> {
    let config = config(kubeconfig).await?;
    Client::try_from(config).map_err(Error::api(format!("using {}", kubeconfig.display())))
}

/// The body of the response to a GET of a non-resource path.
///
/// # Errors
/// [`Error::Api`].
pub async fn get_text(client: &Client, path: &str) -> Result<String> {
    let doing = format!("asking {path}");
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError);
    let request = request.map_err(Error::api(doing.clone()))?;
    client.request_text(request).await.map_err(Error::api(doing))
}

async fn config(kubeconfig: &Path) -> Result<Config> {
    let wrong = |source| Error::Kubeconfig { path: kubeconfig.to_owned(), source: Box::new(source) };
    let file = Kubeconfig::read_from(kubeconfig).map_err(wrong)?;
    let mut config =
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(wrong)?;
    // By default kube retries even creates on 429, 503 and 504. Tests count requests and need to see
    // refusals.
    config.default_retry = false;
    // A request without a response must fail its test with an error that names the request.
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    Ok(config)
}

impl ControlPlane {
    /// A kubeconfig for a service account, with a token from the TokenRequest API.
    ///
    /// # Errors
    /// [`Error::Api`] if the account does not exist, [`Error::File`].
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let doing = || format!("requesting a token for {namespace}/{name}");
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let granted = Api::<ServiceAccount>::namespaced(self.admin(), namespace)
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .map_err(Error::api(doing()))?;
        let token = granted.status.and_then(|status| status.token).unwrap_or_default();
        let serial = self.serial.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let file = format!("{namespace}-{name}-{serial}");
        self.pki.token_kubeconfig(&file, &self.address(), namespace, &token)
    }

    /// A kubeconfig for another address, without TLS and credentials: a proxy at that address adds them.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn bare_kubeconfig(&self, stem: &str, address: &str) -> Result<PathBuf> {
        let serial = self.serial.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.pki.bare_kubeconfig(&format!("{stem}-{serial}"), address)
    }

    /// A client that uses a service account.
    ///
    /// # Errors
    /// As [`ControlPlane::service_account_kubeconfig`].
    pub async fn service_account_client(&self, namespace: &str, name: &str) -> Result<Client> {
        client_from_kubeconfig(&self.service_account_kubeconfig(namespace, name).await?).await
    }

    /// A client of the administrator that impersonates a user.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`] or [`Error::Api`].
    pub async fn impersonating_client(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let mut config = config(&self.admin_kubeconfig).await?;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
        Client::try_from(config).map_err(Error::api(format!("impersonating {user}")))
    }
}
