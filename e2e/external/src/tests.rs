use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rstest::rstest;
use vmpool_test_cluster::node::images::ContainerImage;

use super::*;

/// A directory with fake tools.
struct Tools {
    directory: tempfile::TempDir,
}

impl Tools {
    fn none() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// Adds a tool that logs its arguments, then runs `script` as a shell script.
    fn with(self, name: &str, script: &str) -> Self {
        let path = self.directory.path().join(name);
        let log = self.log();
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> {}\n{script}\n", log.display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// The logged commands, with the unique name replaced.
    fn commands(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().map(|line| line.replace(&provider::unique_name(), "NAME")).collect()
    }

    fn environment(&self) -> Environment {
        Environment { path: self.directory.path().into(), ..Environment::default() }
    }

    fn image(&self) -> ContainerImage {
        let archive = self.directory.path().join("x.tar");
        ContainerImage { reference: "vmpool.local/x:test".to_owned(), archive }
    }

    /// The error of creating a kind cluster.
    async fn kind_error(&self) -> String {
        let kubeconfig = self.directory.path().join("kubeconfig");
        let cluster = kind::KindCluster::create(&self.environment(), &kubeconfig, || Ok(Vec::new())).await;
        cluster.err().expect("the provider is unavailable").to_string()
    }
}

const UNRESPONSIVE: &str =
    "echo 'Cannot connect to the Docker daemon.' >&2; echo 'Is the docker daemon running?' >&2; exit 1";

#[rstest]
#[case::docker_is_missing(Tools::none(), "docker is not on PATH")]
#[case::docker_does_not_respond(
    Tools::none().with("docker", UNRESPONSIVE),
    "`docker version` fails: Cannot connect to the Docker daemon."
)]
#[case::kind_is_missing(
    Tools::none().with("docker", ""),
    "kind is not on PATH (go install sigs.k8s.io/kind)"
)]
#[tokio::test]
async fn kind_reports_requirements_and_reason_on_one_line(#[case] tools: Tools, #[case] reason: &str) {
    let error = tools.kind_error().await;
    assert_eq!(error, format!("E2E_CLUSTER=kind needs Docker and kind: {reason}"));
}

#[rstest]
#[case::default_path(None, "/home/none/.kube/config")]
#[case::path_of_the_variable(Some("/not/there"), "/not/there")]
#[tokio::test]
async fn a_missing_kubeconfig_is_reported_on_one_line(#[case] variable: Option<&str>, #[case] file: &str) {
    let environment = Environment {
        kubeconfig: variable.map(Into::into),
        home: Some("/home/none".into()),
        ..Environment::default()
    };
    let error = current::copy_kubeconfig(&environment, Path::new("/dev/null")).await.unwrap_err();
    let expected = format!(
        "E2E_CLUSTER=current needs a kubeconfig of a cluster with the chart installed: {file} does not exist; set \
         KUBECONFIG"
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn reasons_of_several_lines_become_one_line() {
    let error = Provider::K3s.unavailable("refused\n  by the socket\n").to_string();
    assert_eq!(error, "E2E_CLUSTER=k3s needs Docker: refused by the socket");
}

#[test]
fn the_error_for_an_unknown_provider_lists_the_known_ones() {
    let error = Provider::named("minikube").unwrap_err().to_string();
    for name in ["minikube", "embedded", "node", "kind", "k3s", "current"] {
        assert!(error.contains(name), "{error}");
    }
    for provider in Provider::ALL {
        assert_eq!(Provider::named(provider.name()).unwrap(), provider);
    }
}

#[tokio::test]
async fn kind_creates_a_cluster_with_the_images_and_deletes_it() {
    let tools = Tools::none().with("docker", "").with("kind", "");
    let kubeconfig = tools.directory.path().join("kubeconfig");
    let image = tools.image();
    let images = || Ok(vec![image.clone()]);
    let cluster = kind::KindCluster::create(&tools.environment(), &kubeconfig, images).await.unwrap();
    cluster.delete().await.unwrap();
    let expected = [
        "docker version --format={{.Server.Version}}".to_owned(),
        format!("kind create cluster --name=NAME --kubeconfig={}", kubeconfig.display()),
        format!("kind load image-archive {} --name=NAME", image.archive.display()),
        "kind delete cluster --name=NAME".to_owned(),
    ];
    assert_eq!(tools.commands(), expected);
}

#[tokio::test]
async fn a_partly_created_kind_cluster_is_deleted() {
    let tools = Tools::none().with("docker", "").with("kind", "test \"$1\" != load");
    let kubeconfig = tools.directory.path().join("kubeconfig");
    let images = || Ok(vec![tools.image()]);
    assert!(kind::KindCluster::create(&tools.environment(), &kubeconfig, images).await.is_err());
    assert_eq!(tools.commands().last().unwrap(), "kind delete cluster --name=NAME");
}

#[cfg(feature = "k3s")]
#[test]
fn the_container_of_k3s_has_the_images_and_a_kubeconfig_on_the_host() {
    let tools = Tools::none();
    let config = tools.directory.path().join("k3s");
    let request = k3s::request("registry:5000/k3s:v1-k3s1", &config, &[tools.image()]).unwrap();
    assert_eq!(request.descriptor(), "registry:5000/k3s:v1-k3s1");
    assert_eq!(request.container_name().as_deref(), Some(provider::unique_name().as_str()));
    assert!(request.privileged(), "k3s runs containers");
    let mounts: Vec<_> = request.mounts().map(|mount| (mount.source(), mount.target())).collect();
    assert_eq!(mounts, [(config.to_str(), Some("/etc/rancher/k3s/"))]);
    assert_eq!(request.cmd().next().as_deref(), Some("server"));
    let copied: Vec<_> = request.copy_to_sources().map(|copy| format!("{copy:?}")).collect();
    let [copy] = copied.as_slice() else { panic!("{copied:?}") };
    assert!(copy.contains("x.tar") && copy.contains("/var/lib/rancher/k3s/agent/images/0.tar"), "{copy}");
}

#[cfg(feature = "k3s")]
#[rstest]
#[case("rancher/k3s:v1.32.2-k3s1", "rancher/k3s", "v1.32.2-k3s1")]
#[case("registry:5000/k3s", "registry:5000/k3s", "latest")]
fn an_image_has_a_name_and_a_tag(#[case] image: &str, #[case] name: &str, #[case] tag: &str) {
    assert_eq!(k3s::name_and_tag(image), (name, tag));
}
