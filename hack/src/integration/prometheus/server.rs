//! A Prometheus that scrapes a playground.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::super::http::{encode_value, find_free_port, get_json};
use super::super::playground::{Playground, PlaygroundProgram};
use super::super::process::RunningProgram;
use super::queries::LiveQuery;
use crate::workspace::Workspace;

/// How long Prometheus has time until it has scraped every program.
const START_DEADLINE: Duration = Duration::from_mins(1);

/// A running Prometheus. Dropping it ends it.
#[derive(Debug)]
pub(super) struct PrometheusServer {
    _program: RunningProgram,
    port: u16,
}

impl PrometheusServer {
    /// Starts Prometheus, and waits until it has scraped every program.
    ///
    /// # Errors
    /// Prometheus is missing or does not start, or a program cannot be scraped.
    pub(super) fn start(workspace: &Workspace, playground: &Playground, folder: &Path) -> Result<Self> {
        let file = folder.join("prometheus.json");
        let configuration = configure_scrapes(workspace, playground)?;
        // JSON is YAML.
        fs::write(&file, configuration.to_string()).with_context(|| format!("writing {}", file.display()))?;
        let port = find_free_port()?;
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let program = RunningProgram::start(&mut command, &folder.join("prometheus.log"))
            .context("install the package prometheus")?;
        let server = Self { _program: program, port };
        server.wait_for_targets()?;
        Ok(server)
    }

    fn wait_for_targets(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let state = get_json(self.port, "/api/v1/targets");
            let targets = state.as_ref().ok().and_then(|state| state["data"]["activeTargets"].as_array());
            let is_up = |target: &Value| target["health"] == "up";
            if let Some(targets) = targets.filter(|targets| !targets.is_empty() && targets.iter().all(is_up))
            {
                println!("Prometheus scrapes {} programs", targets.len());
                return Ok(());
            }
            if begun.elapsed() > START_DEADLINE {
                bail!("Prometheus cannot scrape every program: {state:?}");
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Whether the query returns a number, and every series has the labels of the query.
    ///
    /// # Errors
    /// Prometheus rejects the query, or a series lacks a label.
    pub(super) fn returns_data(&self, query: &LiveQuery) -> Result<bool> {
        let response =
            get_json(self.port, &format!("/api/v1/query?query={}", encode_value(&query.expression)))?;
        if response["status"] != "success" {
            bail!("{}: {}: {}", query.title, query.expression, response["error"]);
        }
        let series = response["data"]["result"].as_array().map_or(&[][..], Vec::as_slice);
        for one in series {
            let lacks = |label: &&String| one["metric"][label.as_str()].is_null();
            if let Some(label) = query.labels.iter().find(lacks) {
                bail!("{}: {} has no label {label}: {}", query.title, query.expression, one["metric"]);
            }
        }
        Ok(series.iter().any(|one| one["value"][1] != "NaN"))
    }
}

/// The labels `job`, `namespace` and `pod` are those that a PodMonitor of the chart adds.
fn configure_scrapes(workspace: &Workspace, playground: &Playground) -> Result<Value> {
    let server = playground.read_kubeconfig("/clusters/0/cluster/server")?;
    let mut jobs: Vec<Value> = playground.find_programs()?.iter().map(configure_program).collect();
    jobs.push(json!({
        "job_name": "kubernetes",
        "scheme": "https",
        "tls_config": {
            "ca_file": playground.read_kubeconfig("/clusters/0/cluster/certificate-authority")?,
            "cert_file": playground.read_kubeconfig("/users/0/user/client-certificate")?,
            "key_file": playground.read_kubeconfig("/users/0/user/client-key")?,
        },
        "static_configs": [{ "targets": [server.trim_start_matches("https://")] }],
    }));
    Ok(json!({
        "global": { "scrape_interval": "2s", "evaluation_interval": "5s" },
        "rule_files": [workspace.path("charts/vmpool/files/alerts.yaml")],
        "scrape_configs": jobs,
    }))
}

fn configure_program(program: &PlaygroundProgram) -> Value {
    let component = program.name.split('-').next().unwrap_or_default();
    let labels = json!({
        "job": format!("vmpool-{component}"), "namespace": "vmpool-system", "pod": program.name,
    });
    json!({
        "job_name": program.name,
        "static_configs": [{ "targets": [program.address], "labels": labels }],
    })
}
