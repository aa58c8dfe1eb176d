//! The chart as an archive, as `helm package` writes it, and as an OCI layout, as `helm push` stores it.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use serde_yaml_ng::Value;
use vmpool_image_archive::{Blob, ProgramFile, pack_files, write_artifact_archive};

use super::files::{VERSION, compress_with_gzip, list_files, write_file};
use crate::workspace::Workspace;

const CHART: &str = "charts/vmpool";

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// What `.helmignore` excludes.
const IGNORED: [&str; 3] = [".orig", ".swp", ".tmp"];

/// Writes both forms of the chart.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn write_chart(workspace: &Workspace, registry: &str, out: &Path) -> Result<()> {
    let archive =
        compress_with_gzip(&pack_files(&chart_files(&workspace.path(CHART))?).context("packing the chart")?)?;
    write_file(&out.join(chart_file_name()), &archive)?;
    let metadata =
        fs::read_to_string(workspace.path(CHART).join("Chart.yaml")).context("reading Chart.yaml")?;
    let metadata: Value = serde_yaml_ng::from_str(&metadata).context("reading Chart.yaml")?;
    let config = Blob { media_type: CONFIG, content: serde_json::to_vec(&metadata)? };
    let content = Blob { media_type: CONTENT, content: archive };
    let path = out.join(format!("vmpool-{VERSION}.oci.tar"));
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let reference = format!("{}/charts/vmpool:{VERSION}", registry.trim_end_matches('/'));
    write_artifact_archive(file, &reference, &config, &content)
        .with_context(|| format!("writing {}", path.display()))
}

/// The file of the chart.
pub(super) fn chart_file_name() -> String {
    format!("vmpool-{VERSION}.tgz")
}

/// The files of the chart, in a folder with its name.
pub(super) fn chart_files(folder: &Path) -> Result<Vec<ProgramFile>> {
    let mut files = Vec::new();
    for path in list_files(folder)? {
        let name =
            path.strip_prefix(folder).context("a file is outside of its folder")?.display().to_string();
        let is_hidden = name.split('/').any(|part| part.starts_with('.') && part != ".helmignore");
        if !is_hidden && !IGNORED.iter().any(|end| name.ends_with(end)) {
            let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            files.push(ProgramFile { path: format!("vmpool/{name}"), mode: 0o644, content });
        }
    }
    Ok(files)
}
