//! The demo: a real control plane, the platform simulator and the programs of vmpool, with a pool in a live
//! table. With `ONCE=1` it ends without user input; with `PLATFORM=kubevirt` it shows a pool of KubeVirt.

mod demo_run;
mod table;

use std::process::ExitCode;
use std::sync::Arc;

use demo_run::{DemoRun, NAMESPACE};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;
use vmpool_demo::screen::{LiveScreen, LogWriter, SharedScreen, TerminalSize};
use vmpool_installation::installation::{
    ClusterInstallation, cluster_options, connect_services, kubevirt_definitions,
};
use vmpool_installation::programs::{Chart, ComponentService, ControllerOptions, ControllerProgram};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_invariants::recorder::Recorder;
use vmpool_test_cluster::control_plane::ControlPlane;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        EnvFilter::new("warn,vmpool_installation=info,vmpool_test_cluster=info,kube_client=off")
    });
    let screen: SharedScreen =
        Arc::new(Mutex::new(LiveScreen::new(std::io::stdout(), TerminalSize::measure_stdout)));
    let log = LogWriter(screen.clone());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(move || log.clone())
        .init();
    let once = std::env::var("ONCE").is_ok_and(|once| !once.is_empty() && once != "0");
    let shown = async { run_demo(platform()?, once, &screen).await };
    match shown.await {
        Ok(last_line) => {
            screen.lock().print_line(&last_line);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The platform in the environment.
fn platform() -> anyhow::Result<TestedPlatform> {
    let name = std::env::var("PLATFORM").unwrap_or_default();
    if name.is_empty() {
        return Ok(TestedPlatform::default());
    }
    name.parse().map_err(|error: String| anyhow::anyhow!("PLATFORM: {error}"))
}

/// Returns the last line of output, a summary.
async fn run_demo(platform: TestedPlatform, once: bool, screen: &SharedScreen) -> anyhow::Result<String> {
    screen.lock().print_line(
        "vmpool demo: a real control plane, a simulated platform and our programs, all on this machine.",
    );
    let mut options = cluster_options("demo");
    if platform == TestedPlatform::KubeVirt {
        options.manifests.extend(kubevirt_definitions());
    }
    let cluster = Arc::new(ControlPlane::start(options).await?);
    let chart = Chart::stored()?;
    let installation = ClusterInstallation::simulating(&platform.to_string(), &chart, cluster).await?;
    let cluster = installation.cluster();
    let services = start_services(cluster, &chart).await.inspect_err(|_| cluster.keep_directory())?;
    let namespace = serde_json::from_value(serde_json::json!({ "metadata": { "name": NAMESPACE } }))?;
    Api::<Namespace>::all(cluster.admin()).create(&PostParams::default(), &namespace).await?;
    installation.accounts().grant_in(cluster, NAMESPACE).await?;
    let recorder = Recorder::start_on(platform, cluster.admin(), NAMESPACE).await?;
    let mut options = ControllerOptions::short_lease(NAMESPACE, "demo");
    options.extra.push(format!("--platforms={platform}"));
    let controller = ControllerProgram::start(cluster, options).await?;

    let summary = {
        let mut story = DemoRun::new(cluster, platform, &recorder, &controller, screen.clone())?;
        let told = async {
            story.run().await?;
            if !once {
                story.invite().await;
            }
            Ok(story.summary())
        };
        tokio::select! {
            summary = told => summary,
            _ = tokio::signal::ctrl_c() => Ok("interrupted".to_owned()),
        }
    };
    if summary.is_err() {
        eprintln!("the end of the controller's log:\n{}", controller.log_tail(20));
        cluster.keep_directory();
    }
    screen.lock().print_line("Shutting down ...");
    controller.stop().await?;
    drop((recorder, services));
    installation.stop().await?;
    summary
}

/// Starts the webhook and the aggregated API, and waits until the API server reaches them.
async fn start_services(cluster: &ControlPlane, chart: &Chart) -> anyhow::Result<Vec<ComponentService>> {
    let services = ComponentService::prepare_all(cluster, chart).await?;
    connect_services(cluster, chart, &services, |_| {}).await?;
    Ok(services)
}
