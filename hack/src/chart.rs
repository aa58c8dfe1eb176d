//! The Helm chart: lints it, renders it in all variants and checks the result.
//!
//! The rules are in [`rules`] and check plain objects; this module only runs helm.

mod alert_tests;
mod alerts;
mod cases;
mod dashboard;
mod manifest;
mod objects;
pub(crate) mod readme;
mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod variants;

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_yaml_ng::Value;

use self::cases::ValueCase;
pub(crate) use self::manifest::{INSTALL_MANIFEST, INSTALL_REGISTRY};
use self::variants::{PROGRAMS, Variant};
use crate::workspace::{Workspace, built_program_path, command_output, rust_files};

/// Values that `values.schema.json` or a template must refuse: misspelled names, wrong types, wrong units,
/// empty names, and values with which a program exits.
const REFUSED: &[&str] = &[
    "controller.replica=3",
    "controller.replicas=0",
    "controller.lease.duration=15",
    "controller.resources.request.cpu=1",
    "featureGates.VirtualMachinePool=maybe",
    "watchNamespace=Not_A_Name",
    "image.registry=",
    "image.repository=vmpool",
    "webhook.image.digest=sha256:12",
    "webhook.timeoutSeconds=31",
    "webhook.failurePolicy=Ignore",
    "apiserver.platformGroup=yes",
    "platforms.dvp.enabled=yes",
    "platforms.kubevirt.enabled=1",
    "platforms.kubevirt=true",
    "platforms.auto=auto",
    "controller.kubevirtConditions=maybe",
    "apiserver.port=443",
    "clusterFacts.sdn=perhaps",
    "certificates.mode=None",
    "certificates.certManager.issuerRef.kind=Issuer",
    "metrics.monitor=Annotations",
    "metrics.authorization=perhaps",
    "networkPolicy.apiServerFrom=10.0.0.10/32",
    "metrics.interval=often",
    "metrics.prometheusRule.runbookUrl=alerts.md",
    "metrics.grafanaDashboard.enabled=yes",
    "metrics.grafanaDashboard.folder=vm",
    "podDisruptionBudget.maxUnavailable=0",
    "podDisruptionBudget.maxUnavailable=0%",
    "webhook.drainSeconds=60",
    "apiserver.terminationGracePeriodSeconds=3",
    "webhook.port=8080",
    "controller.lease.duration=1500ms",
    "controller.lease.duration=1s,controller.extraArgs[0]=--request-deadline=100ms",
    "controller.lease.duration=5s",
    "controller.lease.duration=1m5",
    // Longer than the deadline of a request, but not by two renewals.
    "controller.lease.duration=14s",
    "controller.lease.duration=6s,controller.extraArgs[0]=--request-deadline=3s",
    "controller.lease.renewInterval=6s",
    "controller.lease.renewInterval=99ms",
    "controller.log.level=verbose",
    "controller.log.level=info\\,loud",
    "webhook.log.level=kube=loud",
    "apiserver.log.level=7",
    "controller.podLabels.app\\.kubernetes\\.io/name=x",
    "featureGates.DiskImage=true",
    "controller.maxProvisioningPerStorageClass=5",
    "controller.imageNamespaces[0]=golden",
    "diskImage.maxSyncDuration=0s",
    "featureGates.VirtualMachinePool=false,featureGates.MachineWrapper=true",
    // KubeVirt's definitions would have another schema.
    "platforms.kubevirt.enabled=true,featureGates.InstancetypeV1=true",
    "commonLabels.app\\.kubernetes\\.io/name=x",
    "webhook.deploymentLabels.helm\\.sh/chart=x",
    "listenAddress=localhost",
    "service.ipFamilies[0]=IPv5",
    "service.ipFamilyPolicy=Single",
    "global.imagePullSecrets[0].secret=x",
    "serviceAccount.names.doctor=x",
    "serviceAccount.names.webhook=Not_A_Name",
    "extraObjects[0].kind=ConfigMap",
    "podDisruptionBudget.unhealthyPodEvictionPolicy=Never",
    "controller.dnsPolicy=Maybe",
    "controller.strategy.type=OnDelete",
    "controller.extraVolumes[0].emptyDir.medium=Memory",
    "webhook.service.type=NodePort",
    "webhook.namespaceSelector.labels.a=b",
    "probes.liveness.timeoutSeconds=3",
    // Two programs at one port of a node.
    "webhook.hostNetwork=true,apiserver.hostNetwork=true",
    "controller.hostNetwork=true,webhook.hostNetwork=true",
    "featureGates.VirtualMachinePool=false,featureGates.PoolAutoscaler=true",
    "featureGates.VirtualMachinePool=false,featureGates.ImageRefresh=true",
];

/// What installs the chart without images to pull.
const REGISTRY: &str = "image.registry=registry.example";

/// What the chart says without a registry.
const WITHOUT_REGISTRY: &str = "no images of vmpool are published yet";

/// Source folders of the programs that export metrics.
const SOURCES: &[&str] = &["controller/src", "runtime/src", "webhook/src", "apiserver/src"];

/// Lints and renders the chart and applies every rule. Requires helm and the programs, already built.
///
/// # Errors
/// One error that lists all violations.
pub(crate) fn check_chart(workspace: &Workspace) -> Result<()> {
    let read =
        |file: &str| fs::read_to_string(workspace.path(file)).with_context(|| format!("reading {file}"));
    let mut found = Vec::new();
    let lint = helm(workspace)
        .args(["lint", "--strict", "--quiet", "charts/vmpool", "--set", REGISTRY])
        .output()
        .context("starting helm")?;
    if !lint.status.success() {
        found.push(format!("helm lint: {}", String::from_utf8_lossy(&lint.stdout).trim()));
    }
    let rule_file: Value = serde_yaml_ng::from_str(&read("charts/vmpool/files/alerts.yaml")?)
        .context("reading the chart's alerts")?;
    let sources = sources(workspace)?;
    found.extend(alerts::alert_violations(&rule_file, &read("docs/alerts.md")?, &sources));
    let tests = crate::alerts::read_alert_tests(workspace)?;
    found.extend(alert_tests::untested_alerts(&rule_file, &tests));
    let dashboard = read("charts/vmpool/files/dashboard.json")?;
    found.extend(dashboard::dashboard_violations(&dashboard, &sources));
    let schema = read("charts/vmpool/values.schema.json")?;
    found.extend(schema::values_schema_violations(&schema)?);
    found.extend(schema::feature_gate_violations(&schema, &read("feature-gates/src/gate.rs")?)?);
    found.extend(case_violations(workspace, &read("charts/vmpool/values.yaml")?)?);
    let help =
        PROGRAMS.map(|program| Ok((program, help(program)?))).into_iter().collect::<Result<Vec<_>>>()?;
    for variant in Variant::all() {
        let broken = match render(workspace, &variant.values) {
            Ok(objects) => {
                let mut broken = rules::variant_violations(&variant, &objects);
                for rule in objects::of_kind(&objects, "PrometheusRule") {
                    broken.extend(alerts::rendered_alert_violations(rule, &rule_file));
                }
                broken.extend(dashboard::rendered_dashboard_violations(&objects, &dashboard));
                for (program, help) in &help {
                    broken.extend(rules::unknown_flags(program, &objects, help));
                }
                broken
            }
            Err(error) => vec![format!("{error:#}")],
        };
        found.extend(broken.into_iter().map(|text| format!("{}: {text}", variant.name)));
    }
    for value in REFUSED {
        if render(workspace, &[(*value).to_owned()]).is_ok() {
            found.push(format!("the schema and the templates accept {value}"));
        }
    }
    match render(workspace, &["image.registry=".to_owned()]) {
        Err(error) if format!("{error:#}").contains(WITHOUT_REGISTRY) => {}
        _ => found.push("the chart does not say why it needs image.registry".to_owned()),
    }
    for stored in &manifest::MANIFESTS {
        let checked =
            render_manifest(workspace, stored).and_then(|rendered| stored.check(workspace, &rendered));
        found.extend(checked.err().map(|error| format!("{error:#}")));
    }
    if found.is_empty() {
        return Ok(());
    }
    for line in &found {
        eprintln!("  charts/vmpool: {line}");
    }
    bail!("the chart violates {} rules", found.len())
}

/// Stores the rendered manifests: those that the demo and the playground install, and that of an installation
/// without Helm. Needs helm, built.
///
/// # Errors
/// When the chart does not render, or a file cannot be written.
pub(crate) fn write_manifests(workspace: &Workspace) -> Result<()> {
    manifest::MANIFESTS
        .iter()
        .try_for_each(|stored| stored.write(workspace, &render_manifest(workspace, stored)?))
}

/// The objects of the chart with the values of a manifest.
fn render_manifest(workspace: &Workspace, stored: &manifest::StoredManifest) -> Result<Vec<Value>> {
    let values: Vec<String> = stored.values.iter().map(|value| (*value).to_owned()).collect();
    render(workspace, &values)
}

/// The output of a program's `--help`.
fn help(program: &str) -> Result<String> {
    let output = Command::new(built_program_path(program)?)
        .arg("--help")
        .output()
        .with_context(|| format!("starting {program}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn helm(workspace: &Workspace) -> Command {
    let mut command = Command::new(workspace.tools().join("helm/bin/helm"));
    command.current_dir(workspace.root());
    command
}

/// Checks the cases of values, and that cases and variants set every documented value.
fn case_violations(workspace: &Workspace, documented: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut tested: Vec<String> =
        Variant::all().iter().flat_map(|variant| cases::set_paths(&variant.values)).collect();
    let defaults = render(workspace, &[])?;
    for case in ValueCase::all()? {
        let broken = match render_case(workspace, &case) {
            Ok(objects) => case.violations(&objects, &defaults),
            Err(error) => vec![format!("{error:#}")],
        };
        found.extend(broken.into_iter().map(|text| format!("{}: {text}", case.name)));
        tested.extend(case.paths());
    }
    found.extend(cases::untested_values(&readme::documented_values(documented)?, &tested));
    Ok(found)
}

/// The objects of the chart with the values of a case.
fn render_case(workspace: &Workspace, case: &ValueCase) -> Result<Vec<Value>> {
    let mut command = helm_template(workspace);
    command.arg("--set-json").arg(serde_json::to_string(&case.values).context("writing values")?);
    rendered_objects(&mut command)
}

fn render(workspace: &Workspace, values: &[String]) -> Result<Vec<Value>> {
    let mut command = helm_template(workspace);
    for value in values {
        command.args(["--set", value]);
    }
    rendered_objects(&mut command)
}

fn helm_template(workspace: &Workspace) -> Command {
    let mut command = helm(workspace);
    command.args(["template", Variant::RELEASE, "charts/vmpool", "--namespace", Variant::NAMESPACE]);
    command.args(["--set", REGISTRY]);
    command
}

fn rendered_objects(command: &mut Command) -> Result<Vec<Value>> {
    let output = command_output(command, "helm template")?;
    objects::parse_rendered_chart(&String::from_utf8_lossy(&output))
}

/// The sources that may declare a metric. Tests are excluded, because they declare other metrics.
fn sources(workspace: &Workspace) -> Result<String> {
    let mut text = String::new();
    for folder in SOURCES {
        for path in rust_files(&workspace.path(folder))? {
            if !path.ends_with("tests.rs") {
                let source =
                    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                text.push_str(&source);
            }
        }
    }
    Ok(text)
}
