//! `report`: a file for an issue, without secrets and addresses.

mod collect;
mod content;
mod redact;
mod scrub;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use vmpool_platforms::{PlatformName, with_platform};

use self::collect::{ReportedPools, add_common_objects, add_findings, add_installation, add_pools};
use self::content::IssueReport;
use crate::arguments::ReportArguments;
use crate::cluster::UserClusterClient;
use crate::connection::selected_platforms;
use crate::output::{print_note, print_text};
use crate::pool::PoolReference;
use crate::table::Tone;
use crate::visible::escape_to_one_line;

/// The file that stands for the standard output.
const STANDARD_OUTPUT: &str = "-";

/// Writes the report, and says what it contains.
///
/// # Errors
/// The pool does not exist, or the file cannot be written. A missing right is no error.
pub(crate) async fn write_report(
    cluster: &UserClusterClient,
    platform: Option<PlatformName>,
    arguments: &ReportArguments,
) -> Result<()> {
    let pool = arguments.pool.as_deref().map(PoolReference::parse).transpose()?;
    let platform = pool.as_ref().and_then(|pool| pool.platform).or(platform);
    let name = pool.as_ref().map(|pool| &*pool.name);
    let pools = ReportedPools { namespace: &cluster.namespace, name };
    let mut report = IssueReport::default();
    let mut uids = BTreeSet::new();
    for platform in selected_platforms(platform) {
        with_platform!(platform, P => uids.extend(add_pools::<P>(cluster, pools, &mut report).await));
    }
    if let Some(name) = name
        && uids.is_empty()
        && report.unreadable().is_empty()
    {
        bail!("pool {name} not found in namespace {}; choose another namespace with -n", cluster.namespace);
    }
    add_common_objects(cluster, &cluster.namespace, uids, &mut report).await;
    add_installation(cluster, &arguments.system_namespace, &mut report).await;
    add_findings(cluster, &arguments.system_namespace, &mut report).await;
    let now = cluster.env.now();
    let subject = describe_subject(name, &cluster.namespace);
    let text = report.to_yaml(&subject, now)?;
    let file = arguments.file.clone().unwrap_or_else(|| default_file(name, now));
    if file == Path::new(STANDARD_OUTPUT) {
        print_text(&text)?;
    } else {
        write_new_file(&file, &text)?;
    }
    print_note(&describe_report(&report, &file, text.len()));
    Ok(())
}

fn describe_subject(pool: Option<&str>, namespace: &str) -> String {
    match pool {
        Some(pool) => format!("pool {pool} in namespace {namespace}"),
        None => format!("all pools in namespace {namespace}"),
    }
}

/// A name that says of which pool and from when the report is.
fn default_file(pool: Option<&str>, now: Timestamp) -> PathBuf {
    let time = now.strftime("%Y%m%dT%H%M%SZ");
    format!("vmpool-report-{}-{time}.yaml", pool.unwrap_or("all-pools")).into()
}

/// Writes a file that only the user may read. An existing file stays.
fn write_new_file(file: &Path, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut opened = options.open(file).with_context(|| format!("creating {}", file.display()))?;
    opened.write_all(text.as_bytes()).with_context(|| format!("writing {}", file.display()))
}

fn describe_report(report: &IssueReport, file: &Path, bytes: usize) -> String {
    let name = file.display().to_string();
    let mut text = format!(
        "wrote {} ({bytes} bytes): {}\n",
        escape_to_one_line(&name),
        escape_to_one_line(&report.counts())
    );
    for why in report.unreadable() {
        let _ = writeln!(text, "{} {}", Tone::Notice.paint("not read:"), escape_to_one_line(why));
    }
    text.push_str(
        "User data, environments, foreign annotations, addresses, tokens and CA data are redacted. Names and labels are \
         not: read the file before you attach it to an issue.\n",
    );
    text
}

#[cfg(test)]
mod tests;
