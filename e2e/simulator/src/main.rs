//! The program `vmpool-simulator`. The library documents what it does.

use anyhow::Context as _;
use clap::Parser as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    hash::{BuildHasher as _, RandomState},
    io::IsTerminal as _,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};
use vmpool_simulator::{
    cli::{Cli, SimulatorLogFormat},
    shell,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    start_logging(&cli)?;
    let client = connect(&cli).await?;
    let stop = CancellationToken::new();
    stop_on_signals(stop.clone())?;
    shell::run_simulator(client, cli.config(RandomState::new().hash_one("pods")), stop)
        .await
        .context("playing the platform")
}

fn start_logging(cli: &Cli) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&cli.log_level).context("reading --log-level")?;
    let colours = std::io::stderr().is_terminal();
    let registry = tracing_subscriber::registry().with(filter);
    match cli.log_format {
        SimulatorLogFormat::Text => {
            registry.with(fmt::layer().with_ansi(colours).with_writer(std::io::stderr)).init();
        }
        SimulatorLogFormat::Json => registry.with(fmt::layer().json().with_writer(std::io::stderr)).init(),
    }
    Ok(())
}

async fn connect(cli: &Cli) -> anyhow::Result<Client> {
    let mut config = match &cli.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("reading the kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("using the kubeconfig {}", path.display()))?
        }
        None => Config::incluster()
            .context("using the service account of this Pod; to use a kubeconfig, set --kubeconfig")?,
    };
    // The model decides which writes are retried. A client that retries by itself would hide conflicts.
    config.default_retry = false;
    Client::try_from(config).context("creating a client")
}

fn stop_on_signals(stop: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("waiting for SIGINT")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(())
}
