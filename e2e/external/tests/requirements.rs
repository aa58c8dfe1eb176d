//! `make e2e` on external clusters reports on one line what the provider needs and what is missing. Its
//! scenarios need Docker or a cluster, which no test has.

use std::process::{Command, Output};

use rstest::rstest;

fn run(cluster: Option<&str>, home: &str) -> std::io::Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_external_cluster"));
    command.env("PATH", "/nowhere").env("HOME", home).env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    command.env_remove("KUBECONFIG").env_remove("E2E_CLUSTER");
    command.envs(cluster.map(|cluster| ("E2E_CLUSTER", cluster)));
    command.output()
}

#[rstest]
#[case::no_provider(None, "set E2E_CLUSTER to kind, k3s or current")]
#[case::an_unknown_provider(Some("minikube"), "E2E_CLUSTER=minikube is not supported here")]
#[case::a_provider_of_tests(Some("embedded"), "E2E_CLUSTER=embedded is not supported here")]
#[case::kind(Some("kind"), "E2E_CLUSTER=kind needs Docker and kind: docker is not on PATH")]
#[case::k3s(Some("k3s"), "E2E_CLUSTER=k3s needs Docker: ")]
#[case::current(
    Some("current"),
    "E2E_CLUSTER=current needs a kubeconfig of a cluster with the chart installed: "
)]
fn the_error_is_one_line(#[case] cluster: Option<&str>, #[case] line: &str) {
    let home = tempfile::tempdir().unwrap();
    let output = run(cluster, home.path().to_str().unwrap()).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    let lines: Vec<&str> = stderr.lines().collect();
    let [only] = lines.as_slice() else { panic!("{stderr}") };
    let reason = only.strip_prefix(&format!("error: {line}"));
    // A line that ends with a colon is followed by the reason of a library or of this host.
    assert!(reason.is_some_and(|reason| !line.ends_with(": ") || !reason.is_empty()), "{only}");
}
