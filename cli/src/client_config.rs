//! The configuration of the client: the kubeconfig, and the flags that change it.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

use crate::connection::ConnectionArguments;

/// The configuration of a client with the flags of the connection.
///
/// # Errors
/// The kubeconfig cannot be read, or has no such context, or groups are impersonated without a user.
pub(crate) async fn read_client_config(
    connection: &ConnectionArguments,
    request_timeout: Option<Duration>,
) -> Result<Config> {
    let mut config = read_stored_config(connection).await?;
    set_impersonation(&mut config.auth_info, connection)?;
    if let Some(timeout) = request_timeout {
        limit_requests(&mut config, timeout);
    }
    Ok(config)
}

/// The configuration of the kubeconfig, or, as kubectl does, of the Pod that the program runs in.
async fn read_stored_config(connection: &ConnectionArguments) -> Result<Config> {
    let kubeconfig = match &connection.kubeconfig {
        Some(path) => {
            Kubeconfig::read_from(path).with_context(|| format!("reading kubeconfig {}", path.display()))?
        }
        None => match Kubeconfig::read() {
            Ok(kubeconfig) => kubeconfig,
            Err(error) => {
                // Outside of a Pod, the reason is that of the kubeconfig.
                return Config::incluster().map_err(|_| {
                    anyhow!(error).context("reading the kubeconfig; set --kubeconfig or $KUBECONFIG")
                });
            }
        },
    };
    let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .context("reading the kubeconfig; check --context")
}

/// Sets the user and the groups that requests impersonate. Those of the kubeconfig stay without flags.
///
/// # Errors
/// There are groups and no user.
fn set_impersonation(auth: &mut AuthInfo, connection: &ConnectionArguments) -> Result<()> {
    if let Some(user) = &connection.impersonate {
        auth.impersonate = Some(user.clone());
    }
    if !connection.impersonate_groups.is_empty() {
        ensure!(
            auth.impersonate.is_some(),
            "--as-group impersonates groups of a user: name the user with --as"
        );
        auth.impersonate_groups = Some(connection.impersonate_groups.clone());
    }
    Ok(())
}

/// Limits how long a request waits for a connection and for a response.
fn limit_requests(config: &mut Config, timeout: Duration) {
    config.connect_timeout = Some(config.connect_timeout.map_or(timeout, |known| known.min(timeout)));
    config.read_timeout = Some(timeout);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn impersonating(user: Option<&str>, groups: &[&str]) -> ConnectionArguments {
        ConnectionArguments {
            impersonate: user.map(str::to_owned),
            impersonate_groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..ConnectionArguments::default()
        }
    }

    #[test]
    fn groups_are_impersonated_together_with_a_user() {
        let mut auth = AuthInfo::default();
        let error = set_impersonation(&mut auth, &impersonating(None, &["a"])).unwrap_err();
        assert!(error.to_string().contains("--as"), "{error}");
        set_impersonation(&mut auth, &impersonating(Some("ed"), &["a", "b"])).unwrap();
        assert_eq!(auth.impersonate.as_deref(), Some("ed"));
        assert_eq!(auth.impersonate_groups, Some(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn a_user_of_the_kubeconfig_is_enough_for_groups() {
        let mut auth = AuthInfo { impersonate: Some("ed".to_owned()), ..AuthInfo::default() };
        set_impersonation(&mut auth, &impersonating(None, &["a"])).unwrap();
        assert_eq!(auth.impersonate_groups, Some(vec!["a".to_owned()]));
    }

    #[test]
    fn a_request_timeout_limits_connections_and_responses() {
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        limit_requests(&mut config, Duration::from_secs(2));
        assert_eq!(config.read_timeout, Some(Duration::from_secs(2)));
        assert_eq!(config.connect_timeout, Some(Duration::from_secs(2)));
        limit_requests(&mut config, Duration::from_hours(1));
        assert_eq!(config.read_timeout, Some(Duration::from_hours(1)));
        // A longer timeout does not extend the limit of the client for connections.
        assert_eq!(config.connect_timeout, Some(Duration::from_secs(2)));
    }
}
