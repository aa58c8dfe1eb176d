//! KEDA's operator and its metrics server, as processes of this host with KEDA's own account and roles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::super::http::find_free_port;
use super::super::playground::Playground;
use super::super::process::RunningProgram;
use crate::workspace::{Workspace, command_output};

const NAMESPACE: &str = "keda";

/// The API of the metrics server.
const SERVICE: &str = "v1beta1.external.metrics.k8s.io";

/// The names of the certificate: the two programs call each other by the first one, and the API server by the
/// second one.
const CERTIFICATE_NAMES: &str = "subjectAltName=DNS:localhost,DNS:keda-metrics-apiserver.keda.svc";

/// How long the metrics server may take until the API server reaches it.
const START_DEADLINE: Duration = Duration::from_mins(2);

/// Both programs. Dropping this ends them.
#[derive(Debug)]
pub(super) struct KedaPrograms {
    _operator: RunningProgram,
    _metrics_server: RunningProgram,
}

/// Where the programs find their files and each other.
#[derive(Debug)]
struct KedaSetup {
    tools: PathBuf,
    folder: PathBuf,
    /// The port of the operator for the metrics server.
    operator: u16,
    /// The port of the metrics server for the API server.
    metrics_server: u16,
}

impl KedaPrograms {
    /// Starts both programs, and waits until the API server reaches the metrics server.
    ///
    /// # Errors
    /// A program does not start.
    pub(super) fn start(workspace: &Workspace, playground: &Playground, folder: &Path) -> Result<Self> {
        let setup = KedaSetup {
            tools: workspace.tools().join("keda/bin"),
            folder: folder.to_owned(),
            operator: find_free_port()?,
            metrics_server: find_free_port()?,
        };
        setup.create_certificate()?;
        setup.write_kubeconfig(playground)?;
        let operator = RunningProgram::start(&mut setup.operator_command()?, &folder.join("operator.log"))?;
        let mut command = setup.metrics_server_command()?;
        let metrics_server = RunningProgram::start(&mut command, &folder.join("metrics-server.log"))?;
        setup.register_service(playground)?;
        wait_for_service(playground)?;
        Ok(Self { _operator: operator, _metrics_server: metrics_server })
    }
}

impl KedaSetup {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// One certificate, which is its own authority, for both programs in both directions.
    fn create_certificate(&self) -> Result<()> {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=keda", "-newkey", "ec"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-addext", CERTIFICATE_NAMES]);
        openssl.args(["-keyout", &self.path("tls.key"), "-out", &self.path("tls.crt")]);
        command_output(&mut openssl, "creating KEDA's certificate")?;
        fs::copy(self.path("tls.crt"), self.path("ca.crt")).context("copying KEDA's certificate")?;
        Ok(())
    }

    fn write_kubeconfig(&self, playground: &Playground) -> Result<()> {
        let token = playground.kubectl(&["create", "token", "keda-operator", "--namespace", NAMESPACE])?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "cluster", "cluster": {
                "server": playground.read_kubeconfig("/clusters/0/cluster/server")?,
                "certificate-authority": playground.read_kubeconfig("/clusters/0/cluster/certificate-authority")?,
            } }],
            "users": [{ "name": "keda", "user": { "token": token.trim() } }],
            "contexts": [{ "name": "keda", "context": { "cluster": "cluster", "user": "keda" } }],
            "current-context": "keda",
        });
        let path = self.path("kubeconfig");
        fs::write(&path, config.to_string()).with_context(|| format!("writing {path}"))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.tools.join(program));
        command.env("POD_NAMESPACE", NAMESPACE).env("KEDA_CLUSTER_OBJECT_NAMESPACE", NAMESPACE);
        command
            .env("POD_NAME", program)
            .env("WATCH_NAMESPACE", "")
            .env("KUBECONFIG", self.path("kubeconfig"));
        command.arg(format!("--kubeconfig={}", self.path("kubeconfig")));
        command.arg(format!("--cert-dir={}", self.folder.display()));
        command
    }

    fn operator_command(&self) -> Result<Command> {
        let mut command = self.command("operator");
        command
            .arg(format!("--metrics-service-bind-address=127.0.0.1:{}", self.operator))
            .arg(format!("--metrics-bind-address=127.0.0.1:{}", find_free_port()?))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{}", find_free_port()?));
        Ok(command)
    }

    fn metrics_server_command(&self) -> Result<Command> {
        let mut command = self.command("adapter");
        for flag in ["lister-kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
            command.arg(format!("--{flag}={}", self.path("kubeconfig")));
        }
        command
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={}", self.metrics_server))
            .arg(format!("--port={}", find_free_port()?))
            .arg(format!("--metrics-service-address=localhost:{}", self.operator))
            .arg(format!("--client-ca-file={}", self.path("ca.crt")))
            .arg(format!("--tls-cert-file={}", self.path("tls.crt")))
            .arg(format!("--tls-private-key-file={}", self.path("tls.key")));
        Ok(command)
    }

    /// The API server reaches the process by a Service of the type ExternalName.
    fn register_service(&self, playground: &Playground) -> Result<()> {
        let service = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": SERVICE },
            "spec": {
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {
                    "name": "keda-metrics-apiserver", "namespace": NAMESPACE, "port": self.metrics_server,
                },
            },
        });
        let path = self.path("apiservice.json");
        fs::write(&path, service.to_string()).with_context(|| format!("writing {path}"))?;
        playground.kubectl(&["apply", "--server-side", "--filename", &path]).map(drop)
    }
}

fn wait_for_service(playground: &Playground) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = playground.kubectl(&["get", "--raw", "/apis/external.metrics.k8s.io/v1beta1"]) {
        if begun.elapsed() > START_DEADLINE {
            bail!("KEDA's metrics server is not available: {error:#}");
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
