//! `version`: the version of the plugin, and those of the installed programs if the user may read them.

use anyhow::{Result, anyhow};
use serde::Serialize;
use vmpool_runtime::Env;

use crate::arguments::VersionArguments;
use crate::cluster::UserClusterClient;
use crate::connection::ConnectionArguments;
use crate::installation::{InstalledProgram, find_installed_programs};
use crate::output::print_output;
use crate::table::{Cell, Tone, render_table};

/// The name of the plugin in the table.
const PLUGIN: &str = "kubectl-vmpool";

/// Versions. The JSON form is stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct VersionReport {
    client: ClientVersion,
    /// The installed programs; empty if they are unknown or not asked for.
    programs: Vec<InstalledProgram>,
    /// Why they are unknown.
    unknown: Vec<String>,
}

/// The version of the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct ClientVersion {
    version: &'static str,
}

/// Prints the versions. A cluster that cannot be read is no error, because the version of the plugin is
/// known.
///
/// # Errors
/// The output cannot be written.
pub(crate) async fn print_versions(
    connection: &ConnectionArguments,
    arguments: &VersionArguments,
) -> Result<()> {
    let client = ClientVersion { version: env!("CARGO_PKG_VERSION") };
    let mut report = VersionReport { client, ..VersionReport::default() };
    if !arguments.client {
        match read_installed_programs(connection, &arguments.installation.system_namespace).await {
            Ok(programs) => report.programs = programs,
            Err(errors) => report.unknown = errors.iter().map(first_line).collect(),
        }
    }
    print_output(&arguments.format.output, &render_versions(&report), &report)
}

/// The installed programs, or all reasons why they are unknown.
async fn read_installed_programs(
    connection: &ConnectionArguments,
    system: &str,
) -> Result<Vec<InstalledProgram>, Vec<anyhow::Error>> {
    let cluster = UserClusterClient::connect(connection, Env::system()).await.map_err(|error| vec![error])?;
    let programs = find_installed_programs(&cluster, system).await?;
    if programs.is_empty() {
        return Err(vec![anyhow!(
            "namespace {system} has no programs of vmpool; set --system-namespace to the namespace of the release"
        )]);
    }
    Ok(programs)
}

/// The advice in the following lines of an error is for commands that need the right.
fn first_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}

fn render_versions(report: &VersionReport) -> String {
    let mut rows: Vec<Vec<Cell>> = vec![vec![PLUGIN.into(), report.client.version.into(), "".into()]];
    rows.extend(report.programs.iter().map(|program| {
        let tone = if program.version == report.client.version { Tone::Plain } else { Tone::Notice };
        vec![
            program.name.clone().into(),
            Cell::toned(program.version.clone(), tone),
            program.image.clone().into(),
        ]
    }));
    let mut text = render_table(&["PROGRAM", "VERSION", "IMAGE"], &rows);
    if !report.unknown.is_empty() {
        text.push_str("The version of the controller is unknown:\n");
    }
    for why in &report.unknown {
        text.push_str("  ");
        text.push_str(&Tone::Notice.paint(why));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(report: &VersionReport) -> String {
        anstream::adapter::strip_str(&render_versions(report)).to_string()
    }

    #[test]
    fn the_programs_follow_the_plugin() {
        let program = InstalledProgram {
            name: "vmpool-controller".into(),
            version: "0.3.0".into(),
            image: "registry.example/vmpool:0.3.0".into(),
        };
        let report = VersionReport {
            client: ClientVersion { version: "0.4.0" },
            programs: vec![program],
            unknown: Vec::new(),
        };
        assert_eq!(
            plain(&report),
            "PROGRAM            VERSION  IMAGE\n\
             kubectl-vmpool     0.4.0\n\
             vmpool-controller  0.3.0    registry.example/vmpool:0.3.0\n"
        );
        let data = serde_json::to_value(&report).unwrap();
        assert_eq!(data["client"]["version"], "0.4.0");
        assert_eq!(data["programs"][0]["version"], "0.3.0");
        assert_eq!(data["unknown"], json!([]));
    }

    #[test]
    fn an_unknown_version_has_its_reason() {
        let report = VersionReport {
            client: ClientVersion { version: "0.4.0" },
            programs: Vec::new(),
            unknown: vec![first_line(&anyhow!("you may not list pods\nask an administrator"))],
        };
        assert_eq!(
            plain(&report),
            "PROGRAM         VERSION\nkubectl-vmpool  0.4.0\n\
             The version of the controller is unknown:\n  you may not list pods\n"
        );
    }
}
