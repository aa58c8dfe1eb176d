use std::path::PathBuf;

use axum::http::header::USER_AGENT;

use super::{ConnectError, READ_TIMEOUT, WATCH_TIMEOUT_LIMIT, client_config};
use crate::args::ClientArgs;
use crate::telemetry::with_causes;

const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
current-context: here
contexts: [{ name: here, context: { cluster: here, user: me, namespace: machines } }]
clusters: [{ name: here, cluster: { server: 'https://127.0.0.1:6443' } }]
users: [{ name: me, user: { token: secret } }]
";

fn kubeconfig(directory: &tempfile::TempDir, text: &str) -> ClientArgs {
    let path = directory.path().join("config");
    std::fs::write(&path, text).unwrap();
    ClientArgs { kubeconfig: Some(path) }
}

#[tokio::test]
async fn a_given_kubeconfig_is_used_with_the_policies_of_this_module() {
    let directory = tempfile::tempdir().unwrap();
    let config = client_config(&kubeconfig(&directory, KUBECONFIG), "vmpool-test/1").await.unwrap();
    assert_eq!(config.cluster_url, "https://127.0.0.1:6443");
    assert_eq!(config.default_namespace, "machines");
    assert!(!config.default_retry, "kube would retry creates");
    assert!(config.reset_reader_on_write);
    assert!(config.read_timeout.is_some_and(|limit| limit == READ_TIMEOUT && limit > WATCH_TIMEOUT_LIMIT));
    assert!(config.headers.iter().any(|(name, value)| name == USER_AGENT && value == "vmpool-test/1"));
}

#[tokio::test]
async fn a_client_is_created_from_a_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let client = super::connect_client(&kubeconfig(&directory, KUBECONFIG), "vmpool-test/1").await.unwrap();
    assert_eq!(client.default_namespace(), "machines");
}

#[tokio::test]
async fn the_error_for_a_missing_kubeconfig_names_the_file() {
    let args = ClientArgs { kubeconfig: Some(PathBuf::from("/nowhere/config")) };
    let error = client_config(&args, "vmpool-test/1").await.unwrap_err();
    let line = with_causes(&error);
    assert!(
        line.starts_with("loading kubeconfig /nowhere/config: ") && line.contains("No such file"),
        "{line}"
    );
}

#[tokio::test]
async fn the_error_for_an_invalid_kubeconfig_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let error = client_config(&kubeconfig(&directory, "clusters: 7"), "vmpool-test/1").await.unwrap_err();
    assert!(matches!(error, ConnectError::Kubeconfig { .. }), "{error:?}");
}

#[tokio::test]
async fn a_user_agent_of_two_lines_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = client_config(&kubeconfig(&directory, KUBECONFIG), "vm\npool").await.unwrap_err();
    assert!(matches!(error, ConnectError::UserAgent(_)), "{error:?}");
}
