use std::time::Duration;

use clap::Parser;
use tokio_util::sync::CancellationToken;
use vmpool_runtime::Env;
use vmpool_runtime::telemetry::with_causes;

use super::*;

async fn outcome(flags: &[&str]) -> Result<(), String> {
    let flags = ["vmpool-apiserver", "--health-address=127.0.0.1:0", "--listen-address=127.0.0.1:0"]
        .iter()
        .chain(flags);
    let options = ApiServerOptions::try_parse_from(flags).unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    let env = Env::system();
    let running = run_apiserver(options, env.clone(), stop);
    env.timeout(Duration::from_secs(20), running).await.unwrap().map_err(|error| with_causes(&error))
}

#[tokio::test]
async fn invalid_options_are_reported_before_the_servers_start() {
    let error = outcome(&["--feature-gates=Nonsense=true"]).await.unwrap_err();
    assert!(error.contains("--feature-gates"), "{error}");
    let error = outcome(&[]).await.unwrap_err();
    assert!(error.contains("no certificate source"), "{error}");
}

#[tokio::test]
async fn without_a_connection_to_the_api_server_it_does_not_start() {
    let flags = ["--tls-secret=a/b", "--tls-dns-names=localhost", "--kubeconfig=/does/not/exist"];
    let error = outcome(&flags).await.unwrap_err();
    assert!(error.starts_with("connecting to the API server"), "{error}");
}

#[tokio::test]
async fn it_exits_when_it_is_stopped() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let kubeconfig = r#"{"apiVersion":"v1","kind":"Config","current-context":"c",
        "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
        "clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"u","user":{}}]}"#;
    std::fs::write(file.path(), kubeconfig).unwrap();
    let kubeconfig = format!("--kubeconfig={}", file.path().display());
    let flags = ["--tls-secret=a/b", "--tls-dns-names=localhost", &*kubeconfig];
    assert_eq!(outcome(&flags).await, Ok(()));
}
