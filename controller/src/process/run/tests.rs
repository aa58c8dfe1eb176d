use clap::Parser;

use super::*;

fn options(flags: &[&str]) -> ControllerArgs {
    let always =
        ["vmpool-controller", "--health-address=127.0.0.1:0", "--kubeconfig=/nonexistent/kubeconfig"];
    ControllerArgs::parse_from(always.iter().chain(flags))
}

/// Runs until the first wait that only `stop` ends, and stops it then.
async fn outcome(flags: &[&str]) -> Result<(), ControllerRunError> {
    let stop = CancellationToken::new();
    stop.cancel();
    run_controller(options(flags), Env::system(), stop).await
}

#[tokio::test]
async fn with_the_gate_off_no_api_server_is_needed() {
    assert!(outcome(&[]).await.is_ok());
    assert!(outcome(&["--feature-gates=VirtualMachinePool=false"]).await.is_ok());
}

#[tokio::test]
async fn finalizers_are_removed_with_the_gate_off() {
    let error = outcome(&["--remove-finalizers"]).await.unwrap_err();
    assert!(matches!(error, ControllerRunError::Connect(_)), "{error}");
}

#[tokio::test]
async fn with_the_gate_on_a_missing_api_server_is_fatal() {
    let error = outcome(&["--feature-gates=VirtualMachinePool=true"]).await.unwrap_err();
    assert!(matches!(error, ControllerRunError::Connect(_)), "{error}");
    assert!(vmpool_runtime::telemetry::with_causes(&error).contains("/nonexistent/kubeconfig"), "{error}");
}

#[tokio::test]
async fn an_invalid_option_is_reported_before_anything_starts() {
    let error = outcome(&["--feature-gates=VirtualMachinePol=true"]).await.unwrap_err();
    assert!(error.to_string().contains("VirtualMachinePool"), "{error}");
    let error = outcome(&["--workers=0"]).await.unwrap_err();
    assert_eq!(error.to_string(), "--workers must be at least 1");
    let error = outcome(&["--request-deadline=14s"]).await.unwrap_err();
    assert!(error.to_string().starts_with("--request-deadline"), "{error}");
}

#[tokio::test]
async fn a_used_port_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = outcome(&[&format!("--health-address={address}")]).await.unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
