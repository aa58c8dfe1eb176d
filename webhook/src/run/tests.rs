use clap::Parser;

use super::*;

fn options(flags: &[&str]) -> WebhookOptions {
    let always = [
        "vmpool-webhook",
        "--health-address=127.0.0.1:0",
        "--listen-address=127.0.0.1:0",
        "--tls-secret=vmpool-system/vmpool-webhook-tls",
        "--tls-dns-names=localhost",
        "--kubeconfig=/nonexistent/kubeconfig",
    ];
    WebhookOptions::parse_from(always.iter().chain(flags))
}

/// Runs the program with a stop token that is already cancelled.
async fn outcome(flags: &[&str]) -> Result<(), WebhookRunError> {
    let stop = CancellationToken::new();
    stop.cancel();
    run_webhook(options(flags), Env::system(), stop).await
}

#[tokio::test]
async fn without_a_connection_to_the_api_server_it_does_not_start() {
    let error = outcome(&["--feature-gates=VirtualMachinePool=true"]).await.unwrap_err();
    assert!(matches!(error, WebhookRunError::Serve(ServeError::Connect(_))), "{error}");
    assert!(telemetry::with_causes(&error).contains("/nonexistent/kubeconfig"), "{error}");
}

#[tokio::test]
async fn invalid_options_are_reported_before_the_servers_start() {
    let error = outcome(&["--feature-gates=VirtualMachinePol=true"]).await.unwrap_err();
    assert!(error.to_string().contains("VirtualMachinePool"), "{error}");
    let error = outcome(&["--removal-handler="]).await.unwrap_err();
    assert!(error.to_string().starts_with("--removal-handler"), "{error}");
    let error = outcome(&["--tls-cert-file=a"]).await.unwrap_err();
    assert!(error.to_string().contains("--tls-secret and --tls-cert-file"), "{error}");
}

#[tokio::test]
async fn a_port_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = outcome(&[&format!("--health-address={address}")]).await.unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
