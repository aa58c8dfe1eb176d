//! The demo: a real control plane, the platform simulator and the controller, with a pool that converges in a live table.
//! With `ONCE=1` it ends without user input; with `PLATFORM=kubevirt` it shows a pool of KubeVirt.

mod table;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use table::Table;
use tracing_subscriber::EnvFilter;
use vmpool_installation::installation::{Installation, cluster_options, kubevirt_definitions};
use vmpool_installation::programs::{Chart, Controller, ControllerOptions};
use vmpool_installation::workspace_root;
use vmpool_invariants::object::Kind;
use vmpool_invariants::platform::PlatformName;
use vmpool_invariants::recorder::Recorder;
use vmpool_test_cluster::control_plane::ControlPlane;

const NAMESPACE: &str = "demo";
const POOL: &str = "quickstart";
/// Timeout of a step on a slow host.
const PATIENCE: Duration = Duration::from_mins(2);
/// Interval at which the table is refreshed.
const REFRESH: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        EnvFilter::new("warn,vmpool_installation=info,vmpool_test_cluster=info,kube_client=off")
    });
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr).init();
    let once = std::env::var("ONCE").is_ok_and(|once| !once.is_empty() && once != "0");
    let shown = async { demo(platform()?, once).await };
    match shown.await {
        Ok(last_line) => {
            println!("{last_line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The platform in the environment.
fn platform() -> anyhow::Result<PlatformName> {
    let name = std::env::var("PLATFORM").unwrap_or_default();
    if name.is_empty() {
        return Ok(PlatformName::default());
    }
    name.parse().map_err(|error: String| anyhow::anyhow!("PLATFORM: {error}"))
}

/// The manifest of the pool.
fn manifest(platform: PlatformName) -> &'static str {
    match platform {
        PlatformName::Dvp => "docs/examples/quickstart.yaml",
        PlatformName::KubeVirt => "docs/examples/kubevirt/quickstart.yaml",
    }
}

/// The resource name of a kind with its group, because a cluster may have both platforms.
fn full_name(platform: PlatformName, kind: Kind) -> String {
    let resource = platform.resource(kind);
    format!("{}.{}", resource.plural, resource.group)
}

/// Returns the last line of output, a summary.
async fn demo(platform: PlatformName, once: bool) -> anyhow::Result<String> {
    println!(
        "vmpool demo: a real control plane, a simulated platform and our controller, all on this machine."
    );
    let mut options = cluster_options("demo");
    if platform == PlatformName::KubeVirt {
        options.manifests.extend(kubevirt_definitions());
    }
    let cluster = Arc::new(ControlPlane::start(options).await?);
    let installation = Installation::simulating(&platform.to_string(), &Chart::stored()?, cluster).await?;
    let cluster = installation.cluster();
    let namespace = serde_json::from_value(serde_json::json!({ "metadata": { "name": NAMESPACE } }))?;
    Api::<Namespace>::all(cluster.admin()).create(&PostParams::default(), &namespace).await?;
    installation.accounts().grant_in(cluster, NAMESPACE).await?;
    let recorder = Recorder::start_on(platform, cluster.admin(), NAMESPACE).await?;
    let mut options = ControllerOptions::new(NAMESPACE, "demo");
    options.extra.push(format!("--platforms={platform}"));
    let controller = Controller::start(cluster, options).await?;

    let summary = {
        let story = story(&installation, platform, &recorder, once);
        tokio::select! {
            summary = story => summary,
            _ = tokio::signal::ctrl_c() => Ok("interrupted".to_owned()),
        }
    };
    if summary.is_err() {
        eprintln!("the end of the controller's log:\n{}", controller.log_tail(20));
        cluster.keep_directory();
    }
    println!("Shutting down ...");
    controller.stop().await?;
    drop(recorder);
    installation.stop().await?;
    summary
}

async fn story(
    installation: &Installation,
    platform: PlatformName,
    recorder: &Recorder,
    once: bool,
) -> anyhow::Result<String> {
    let cluster = installation.cluster();
    let mut table = Table::new(POOL);
    let pools = match platform {
        PlatformName::Dvp => "vmpool".to_owned(),
        PlatformName::KubeVirt => full_name(platform, Kind::Pool),
    };

    let manifest = manifest(platform);
    println!("\n$ kubectl apply -f {manifest}");
    cluster.apply_path(&workspace_root().join(manifest), Some(NAMESPACE)).await?;
    converge(recorder, &mut table, 2).await?;

    println!("\n$ kubectl scale {pools} {POOL} --replicas=3");
    let namespace = format!("--namespace={NAMESPACE}");
    cluster.kubectl(&[&namespace, "scale", &pools, POOL, "--replicas=3"]).await?;
    converge(recorder, &mut table, 3).await?;

    if !once {
        println!("\nNow use the cluster from another terminal:\n");
        println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
        let (machines, disks) = match platform {
            PlatformName::Dvp => ("vm".to_owned(), "vd".to_owned()),
            PlatformName::KubeVirt => (full_name(platform, Kind::Machine), full_name(platform, Kind::Disk)),
        };
        println!("  kubectl -n {NAMESPACE} get {pools},{machines},{disks}");
        println!("  kubectl -n {NAMESPACE} scale {pools} {POOL} --replicas=10");
        println!(
            "  kubectl -n {NAMESPACE} delete {machines} --all      # the controller creates new machines"
        );
        println!("\nPress Ctrl-C to stop.\n");
        loop {
            table.show(recorder);
            tokio::time::sleep(REFRESH).await;
        }
    }
    Ok(table.summary(recorder))
}

/// Refreshes the table until the pool has `count` ready replicas and no others.
async fn converge(recorder: &Recorder, table: &mut Table, count: i64) -> anyhow::Result<()> {
    let begin = Instant::now();
    // Read the objects that were just applied, so that the first table contains them.
    recorder.catch_up().await?;
    loop {
        table.show(recorder);
        let state = recorder.state();
        let pool = state.named(Kind::Pool, POOL).context("the pool does not exist")?;
        let of = |path| pool.number(path);
        // The status of KubeVirt pools has no generation. Its count differs until the controller has acted.
        let observed = of("/status/observedGeneration");
        let current = observed == of("/metadata/generation") || pool.is_kubevirt();
        if current && of("/status/readyReplicas") == Some(count) && of("/status/replicas") == Some(count) {
            println!("{count} of {count} ready after {:.1} s", begin.elapsed().as_secs_f32());
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            bail!("the pool did not reach {count} ready replicas in {PATIENCE:?}:\n{}", pool.to_yaml());
        }
        tokio::time::sleep(REFRESH).await;
    }
}
