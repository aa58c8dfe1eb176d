use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rstest::rstest;

use super::*;

/// A folder with fake tools.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Adds a tool that logs its arguments, then runs `script` as a shell script.
    fn tool(self, name: &str, script: &str) -> Self {
        let path = self.folder.path().join(name);
        let log = self.log();
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> {}\n{script}\n", log.display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The logged commands, with the unique name replaced.
    fn asked(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().map(|line| line.replace(&unique_name(), "NAME")).collect()
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings { path: self.folder.path().into(), ..Surroundings::default() }
    }

    async fn refusal(&self, provider: Provider) -> String {
        let kubeconfig = self.folder.path().join("kubeconfig");
        let surroundings = self.surroundings();
        let error = match provider {
            Provider::Kind => {
                kind::Cluster::create(&surroundings, &kubeconfig, || Ok(Vec::new())).await.err()
            }
            Provider::K3s => k3s::Server::start(&surroundings, &kubeconfig, || Ok(Vec::new())).await.err(),
            Provider::Current => current::copy_kubeconfig(&surroundings, &kubeconfig).await.err(),
        };
        let text = vmpool_test_cluster::error::chain(&error.expect("the provider is refused"));
        assert!(!text.contains('\n'), "one line: {text}");
        text
    }
}

const SILENT: &str = "echo 'Cannot connect to the Docker daemon.' >&2; echo 'Is it there?' >&2; exit 1";

#[rstest]
#[case::kind(Provider::Kind)]
#[case::k3s(Provider::K3s)]
#[tokio::test]
async fn the_error_without_docker_is_one_line(#[case] provider: Provider) {
    let text = Place::new().refusal(provider).await;
    assert_eq!(text, format!("E2E_CLUSTER={} needs docker, which is not on PATH", provider.name()));
    let text = Place::new().tool("docker", SILENT).refusal(provider).await;
    let reason = "a running Docker daemon, but `docker version` fails: Cannot connect to the Docker daemon.";
    assert_eq!(text, format!("E2E_CLUSTER={} needs {reason}", provider.name()));
}

#[tokio::test]
async fn the_error_without_kind_is_one_line() {
    let text = Place::new().tool("docker", "").refusal(Provider::Kind).await;
    assert_eq!(text, "E2E_CLUSTER=kind needs kind, which is not on PATH (go install sigs.k8s.io/kind)");
}

#[tokio::test]
async fn the_error_without_a_kubeconfig_is_one_line() {
    let place = Place::new();
    let text = place.refusal(Provider::Current).await;
    assert!(text.starts_with("E2E_CLUSTER=current needs a kubeconfig: set KUBECONFIG"), "{text}");
    let surroundings = Surroundings { kubeconfig: Some("/not/there".into()), ..place.surroundings() };
    let error = current::copy_kubeconfig(&surroundings, Path::new("/dev/null")).await.unwrap_err();
    assert!(error.to_string().ends_with("there is no /not/there"), "{error}");
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

fn image(place: &Place) -> Image {
    Image { reference: "vmpool.local/x:test".to_owned(), archive: place.folder.path().join("x.tar") }
}

#[tokio::test]
async fn kind_creates_a_cluster_with_the_images_and_deletes_it() {
    let place = Place::new().tool("docker", "").tool("kind", "");
    let kubeconfig = place.folder.path().join("kubeconfig");
    let image = image(&place);
    let images = || Ok(vec![image.clone()]);
    let cluster = kind::Cluster::create(&place.surroundings(), &kubeconfig, images).await.unwrap();
    cluster.delete().await.unwrap();
    let expected = [
        "docker version --format={{.Server.Version}}".to_owned(),
        format!("kind create cluster --name=NAME --kubeconfig={} --wait=180s", kubeconfig.display()),
        format!("kind load image-archive {} --name=NAME", image.archive.display()),
        "kind delete cluster --name=NAME".to_owned(),
    ];
    assert_eq!(place.asked(), expected);
}

#[tokio::test]
async fn a_partly_created_cluster_is_deleted() {
    let place = Place::new().tool("docker", "").tool("kind", "test \"$1\" != load");
    let kubeconfig = place.folder.path().join("kubeconfig");
    let made = kind::Cluster::create(&place.surroundings(), &kubeconfig, || Ok(vec![image(&place)])).await;
    assert!(made.is_err());
    assert_eq!(place.asked().last().unwrap(), "kind delete cluster --name=NAME");
}

#[tokio::test]
async fn k3s_is_started_used_and_removed() {
    let docker = r#"case "$*" in
        port*) echo 127.0.0.1:32768;;
        *k3s.yaml) echo "server: https://127.0.0.1:6443";;
    esac"#;
    let place = Place::new().tool("docker", docker);
    let kubeconfig = place.folder.path().join("kubeconfig");
    let server =
        k3s::Server::start(&place.surroundings(), &kubeconfig, || Ok(vec![image(&place)])).await.unwrap();
    assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap().trim(), "server: https://127.0.0.1:32768");
    server.remove().await.unwrap();
    let asked = place.asked();
    for (nth, part) in [
        (1, "docker run --detach --privileged"),
        (3, "cat /etc/rancher/k3s/k3s.yaml"),
        (5, "x.tar NAME:/tmp/image.tar"),
        (6, "images import /tmp/image.tar"),
        (7, "docker rm --force --volumes NAME"),
    ] {
        assert!(asked[nth].contains(part), "{nth}: {asked:#?}");
    }
}

#[tokio::test]
async fn a_partly_started_server_is_removed() {
    let place = Place::new().tool("docker", "test \"$1\" != port");
    let kubeconfig = place.folder.path().join("kubeconfig");
    assert!(k3s::Server::start(&place.surroundings(), &kubeconfig, || Ok(Vec::new())).await.is_err());
    assert_eq!(place.asked().last().unwrap(), "docker rm --force --volumes NAME");
}
