//! The node cluster itself: Pods run and are reachable, they survive a crash of the kubelet, and nothing
//! remains afterwards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use vmpool_e2e::harness::block_on;
use vmpool_installation::installation::kubevirt_definitions;
use vmpool_installation::programs::{Accounts, Chart, ControllerOptions, ControllerProgram, Simulator};
use vmpool_test_cluster::control_plane::{AuditLog, apply_manifests, target_directory};
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::node::{NodeCluster, NodeOptions, images};
use vmpool_test_cluster::{node_test, poll, test_runner};

/// Only limits failures; the test usually takes seconds.
const DEADLINE: Duration = Duration::from_mins(2);

/// The directory of a cluster that this program starts and never stops, instead of running tests: a test
/// kills it.
const TO_KILL: &str = "NODE_CLUSTER_TO_KILL";

fn main() -> anyhow::Result<ExitCode> {
    if let Some(directory) = std::env::var_os(TO_KILL).map(PathBuf::from) {
        return run_until_killed(&directory).map(|()| ExitCode::FAILURE);
    }
    Ok(test_runner::run_tests(vec![
        node_test!(two_pods_are_served_through_the_address_of_their_service),
        node_test!(all_processes_are_killed_with_the_harness),
        node_test!(a_service_with_the_label_of_a_kubevirt_pool_reaches_its_machines),
    ]))
}

/// A small static program that serves HTTP: etcd.
fn server() -> anyhow::Result<images::ContainerImage> {
    Ok(images::of_file("server", &target_directory().join("tools/control-plane/bin/server"))?)
}

fn objects() -> [Value; 2] {
    let selector = json!({ "app": "server" });
    let container = json!({
        "name": "server",
        "image": "vmpool.local/server:test",
        "imagePullPolicy": "Never",
        "args": ["--data-dir=/data/etcd", "--listen-client-urls=http://0.0.0.0:2379",
            "--advertise-client-urls=http://127.0.0.1:2379", "--unsafe-no-fsync"],
        "readinessProbe": { "httpGet": { "path": "/readyz", "port": 2379 }, "periodSeconds": 1 },
        "securityContext": { "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "runAsNonRoot": true, "capabilities": { "drop": ["ALL"] } },
        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
    });
    let pod = json!({
        "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [container],
        "volumes": [{ "name": "data", "emptyDir": {} }],
    });
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "server" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": selector },
            "template": { "metadata": { "labels": selector }, "spec": pod },
        },
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "server" },
        "spec": { "selector": selector, "ports": [{ "port": 80, "targetPort": 2379 }] },
    });
    [deployment, service]
}

fn two_pods_are_served_through_the_address_of_their_service() {
    pods_are_served().expect("Pods are served");
}

fn pods_are_served() -> anyhow::Result<()> {
    let before = traces();
    block_on(async {
        let options =
            NodeOptions { name: "pods".to_owned(), images: vec![server()?], ..NodeOptions::default() };
        let node = NodeCluster::start(options).await?;
        let outcome = async {
            apply_manifests(&node.admin(), &objects(), None).await?;
            served(&node).await?;
            // Pods run without the kubelet, and a new kubelet finds them.
            node.restart_kubelet()?;
            served(&node).await?;
            node.kubectl(&["delete", "pod", "--all"]).await?;
            served(&node).await?;
            node.check()?;
            ensure!(node.logs(1).iter().any(|(name, lines)| name == "kubelet" && !lines.is_empty()));
            anyhow::Ok(())
        };
        outcome.await.inspect_err(|_| node.keep_directory())?;
        let directory = node.directory().to_owned();
        let groups = control_groups(&directory)?;
        ensure!(!groups.is_empty(), "Pods have control groups");
        node.stop().await?;
        ensure!(!directory.exists(), "{} still exists", directory.display());
        let left: Vec<_> = groups.iter().filter(|folder| folder.exists()).collect();
        ensure!(left.is_empty(), "remaining: {left:?}");
        anyhow::Ok(())
    })?;
    ensure!(traces() == before, "remaining: {:?}, before: {before:?}", traces());
    Ok(())
}

/// Waits until both Pods are ready and the Service responds at its cluster address.
async fn served(node: &NodeCluster) -> anyhow::Result<()> {
    let ready = ["get", "deployment", "server", "-o", "jsonpath={.status.readyReplicas}"];
    poll::poll_until(
        || "two Pods are ready".to_owned(),
        DEADLINE,
        async || {
            let said = node.kubectl(&ready).await?;
            Ok(if said == "2" { Ok(()) } else { Err(said) })
        },
    )
    .await?;
    let address = node.kubectl(&["get", "service", "server", "-o", "jsonpath={.spec.clusterIP}"]).await?;
    let (_way, port) =
        node.reach(format!("{address}:80").parse().context("reading the Service's address")?)?;
    poll::poll_until(
        || "the Service responds".to_owned(),
        DEADLINE,
        async || {
            Ok(get(port, "/version")
                .await
                .and_then(|said| if said.contains("etcdserver") { Ok(()) } else { Err(said) }))
        },
    )
    .await?;
    Ok(())
}

fn a_service_with_the_label_of_a_kubevirt_pool_reaches_its_machines() {
    block_on(machines_are_served()).expect("the machines are served");
}

/// The guests of the machines serve HTTP, in launcher Pods that the node runs.
async fn machines_are_served() -> anyhow::Result<()> {
    let options =
        NodeOptions { name: "machines".to_owned(), images: vec![server()?], ..NodeOptions::default() };
    let node = NodeCluster::start(options).await?;
    let outcome = async {
        for folder in kubevirt_definitions() {
            node.cluster().apply_path(&folder, None).await?;
        }
        let chart = Chart::render(&["platforms.kubevirt.enabled=true".to_owned()]).await?;
        let accounts = Accounts::of(&chart, node.cluster()).await?;
        accounts.grant_in(node.cluster(), "default").await?;
        let simulator = Simulator::start_with(node.cluster(), &["--platform=kubevirt"]).await?;
        let mut options = ControllerOptions::new("default", "one");
        options.extra.push("--platforms=kubevirt".to_owned());
        let controller = ControllerProgram::start(node.cluster(), options).await?;
        apply_manifests(&node.admin(), &pool_of_servers(), Some("default")).await?;
        let outcome = requests_reach_both(&node).await;
        outcome.inspect_err(|_| eprintln!("{}\n{}", controller.log_tail(20), simulator.log_tail(20)))?;
        controller.stop().await?;
        anyhow::Ok(())
    };
    outcome.await.inspect_err(|_| node.keep_directory())?;
    node.stop().await?;
    Ok(())
}

/// A pool of two machines, a Service with the label of the pool, and what the launchers run.
fn pool_of_servers() -> [Value; 3] {
    let [mut deployment, mut service] = objects();
    let mut container = deployment["spec"]["template"]["spec"]["containers"][0].take();
    // Launchers have no volume for data, so the server writes to its root. The identity of a server depends
    // on the name of its Pod.
    container["securityContext"] = json!({ "runAsUser": 0 });
    container["volumeMounts"] = json!([]);
    container["env"] =
        json!([{ "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }]);
    let arguments = container["args"].as_array_mut().expect("it has arguments");
    arguments.push(json!("--initial-cluster-token=$(POD)"));
    let labels = json!({ "farm": "web" });
    service["spec"]["selector"] = labels.clone();
    let knobs = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "simulator-knobs" },
        "data": { "launcher-container": container.to_string() },
    });
    let pool = json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "virtualMachineTemplate": {
                "metadata": { "labels": labels },
                "spec": { "runStrategy": "Always", "template": {
                    "metadata": { "labels": labels },
                    "spec": { "domain": { "memory": { "guest": "64Mi" }, "devices": {} }, "volumes": [] },
                } },
            },
        },
    });
    [knobs, service, pool]
}

/// Waits until requests to the address of the Service are answered, and by two machines.
async fn requests_reach_both(node: &NodeCluster) -> anyhow::Result<()> {
    let address = node.kubectl(&["get", "service", "server", "-o", "jsonpath={.spec.clusterIP}"]).await?;
    let (_way, port) =
        node.reach(format!("{address}:80").parse().context("reading the Service's address")?)?;
    let mut names = BTreeSet::new();
    poll::poll_until(
        || "two machines answer at the address of the Service".to_owned(),
        DEADLINE,
        async || {
            let answer = get(port, "/metrics").await;
            let id =
                answer.as_ref().ok().and_then(|text| text.lines().find(|line| line.contains("server_id=")));
            names.extend(id.map(str::to_owned));
            Ok(if names.len() == 2 { Ok(()) } else { Err(format!("{names:?}, {answer:.200?}")) })
        },
    )
    .await?;
    Ok(())
}

async fn get(port: u16, path: &str) -> Result<String, String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let exchange = async {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    // Without an endpoint, the address of a Service does not respond.
    let response = tokio::time::timeout(Duration::from_secs(5), exchange).await;
    response.map_err(|elapsed| elapsed.to_string())?.map_err(|error| error.to_string())
}

/// The folders of the cluster's control groups, in every hierarchy.
fn control_groups(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let settings: Value = serde_json::from_slice(&std::fs::read(directory.join("kubelet.yaml"))?)?;
    let name = settings["cgroupRoot"]
        .as_str()
        .context("the kubelet's settings contain its control group")?
        .trim_start_matches('/');
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup")?.flatten().map(|entry| entry.path());
    let folders = hierarchies.chain([PathBuf::from("/sys/fs/cgroup")]).map(|hierarchy| hierarchy.join(name));
    Ok(folders.filter(|folder| folder.join("kubepods").exists()).collect())
}

/// Traces that a cluster could leave on the host besides its directory and its control groups, which other
/// clusters change, too.
fn traces() -> Vec<String> {
    let list = |directory: &str| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
    };
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut found: Vec<String> =
        ["/run", "/var/lib", "/var/log", "/opt", "/usr/libexec"].into_iter().flat_map(list).collect();
    found.extend(list("/sys/class/net"));
    // Settings that a kubelet writes for the whole host.
    found.extend(
        ["vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"]
            .map(|setting| format!("{setting} = {}", read(&format!("/proc/sys/{setting}")).trim())),
    );
    found.extend(read("/proc/self/mounts").lines().map(str::to_owned));
    found.sort();
    found
}

/// Starts a cluster with Pods, and waits longer than any test.
fn run_until_killed(directory: &Path) -> anyhow::Result<()> {
    block_on(async {
        let options = NodeOptions {
            images: vec![server()?],
            audit: AuditLog::Off,
            directory: Some(directory.join("cluster")),
            ..NodeOptions::default()
        };
        let node = NodeCluster::start(options).await?;
        apply_manifests(&node.admin(), &objects(), None).await?;
        served(&node).await?;
        std::fs::write(directory.join("up"), "")?;
        tokio::time::sleep(DEADLINE).await;
        Ok(())
    })
}

fn all_processes_are_killed_with_the_harness() {
    a_killed_harness_leaves_no_process().expect("no process is left");
}

fn a_killed_harness_leaves_no_process() -> anyhow::Result<()> {
    // In the target directory, because a temporary directory may be in memory.
    let directory = tempfile::tempdir_in(target_directory())?;
    let mut harness = Command::new(std::env::current_exe()?)
        .env(TO_KILL, directory.path())
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let deadline = Deadline::after(2 * DEADLINE);
    while !directory.path().join("up").exists() {
        let is_waiting = harness.try_wait()?.is_none() && !deadline.is_over();
        ensure!(is_waiting, "the cluster did not start within {}", deadline.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
    ensure!(users_of(directory.path()) > 5, "etcd, kubelet, containerd and others run in the directory");
    harness.kill()?;
    harness.wait()?;
    let deadline = Deadline::after(DEADLINE);
    while users_of(directory.path()) > 0 {
        ensure!(
            !deadline.is_over(),
            "processes still run {} after the harness was killed",
            deadline.elapsed()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Number of running processes with the directory in their command line.
fn users_of(directory: &Path) -> usize {
    let name = directory.display().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let uses = |entry: &std::fs::DirEntry| {
        // The command line of a zombie is empty.
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&name))
    };
    entries.filter(uses).count()
}
