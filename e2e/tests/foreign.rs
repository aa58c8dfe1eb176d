//! `make e2e` on clusters of others says in one line what is missing. What it does where nothing is missing needs Docker or
//! a cluster, and no test has them.

use std::process::{Command, Output};

use rstest::rstest;

fn run(cluster: Option<&str>, home: &str) -> std::io::Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreign"));
    command.env("PATH", "/nowhere").env("HOME", home).env_remove("KUBECONFIG").env_remove("E2E_CLUSTER");
    command.envs(cluster.map(|cluster| ("E2E_CLUSTER", cluster)));
    command.output()
}

#[rstest]
#[case::nothing(None, "set E2E_CLUSTER to kind, k3s or current")]
#[case::another(Some("minikube"), "E2E_CLUSTER=minikube is no cluster for this")]
#[case::ours(Some("embedded"), "E2E_CLUSTER=embedded is no cluster for this")]
#[case::kind(Some("kind"), "E2E_CLUSTER=kind needs docker, which is not on PATH")]
#[case::k3s(Some("k3s"), "E2E_CLUSTER=k3s needs docker, which is not on PATH")]
#[case::current(Some("current"), "E2E_CLUSTER=current needs a kubeconfig: set KUBECONFIG")]
fn one_line_says_what_is_missing(#[case] cluster: Option<&str>, #[case] line: &str) {
    let home = tempfile::tempdir().unwrap();
    let output = run(cluster, home.path().to_str().unwrap()).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    let lines: Vec<&str> = said.lines().collect();
    let [only] = lines.as_slice() else { panic!("{said}") };
    assert!(only.starts_with(&format!("error: {line}")), "{only}");
}
