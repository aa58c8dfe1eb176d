//! `doctor`: whether vmpool is installed completely and the user has the usual rights.

mod checks;
mod finding;
mod probes;
mod rights;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};

use self::finding::{CheckFinding, CheckVerdict};
use crate::arguments::DoctorArguments;
use crate::cluster::UserClusterClient;
use crate::output::print_output;
use crate::table::Tone;
use crate::visible::{escape_except_lines, escape_to_one_line};

/// Time between two attempts with `--wait`.
const PAUSE: Duration = Duration::from_secs(2);

/// Prints all findings, with `--wait` those of the last attempt.
///
/// # Errors
/// Something is not in order.
pub(crate) async fn print_check_findings(
    cluster: &UserClusterClient,
    arguments: &DoctorArguments,
) -> Result<()> {
    let deadline = cluster.env.uptime() + arguments.wait.unwrap_or_default();
    let findings = loop {
        let findings = checks::run_all_checks(cluster, &arguments.installation.system_namespace).await;
        if count_failed(&findings) == 0 || cluster.env.uptime() >= deadline {
            break findings;
        }
        cluster.env.sleep(PAUSE).await;
    };
    print_output(&arguments.format.output, &render_findings(&findings), &findings)?;
    match count_failed(&findings) {
        0 => Ok(()),
        1 => bail!("1 check failed"),
        failed => bail!("{failed} checks failed"),
    }
}

fn count_failed(findings: &[CheckFinding]) -> usize {
    findings.iter().filter(|finding| finding.verdict == CheckVerdict::Failed).count()
}

/// The findings as JSON, for a report.
///
/// # Errors
/// A finding cannot be written as JSON.
pub(crate) async fn collect_findings(
    cluster: &UserClusterClient,
    system: &str,
) -> Result<Vec<serde_json::Value>> {
    let findings = checks::run_all_checks(cluster, system).await;
    findings.iter().map(|finding| Ok(serde_json::to_value(finding)?)).collect()
}

fn render_findings(findings: &[CheckFinding]) -> String {
    let mut text = String::new();
    for CheckFinding { check, verdict, what, remedy } in findings {
        let (word, tone) = match verdict {
            CheckVerdict::Ok => ("ok", Tone::Good),
            CheckVerdict::Unknown => ("unknown", Tone::Faint),
            CheckVerdict::Warning => ("warning", Tone::Notice),
            CheckVerdict::Failed => ("failed", Tone::Bad),
        };
        let _ = writeln!(
            text,
            "{} {}: {}",
            tone.paint(&format!("{word:<8}")),
            escape_to_one_line(check),
            escape_except_lines(what)
        );
        if !remedy.is_empty() {
            let _ = writeln!(text, "         -> {}", escape_except_lines(remedy));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_has_its_remedy() {
        let findings = [
            CheckFinding::new("pools", CheckVerdict::Ok, "served", ""),
            CheckFinding::new("webhook", CheckVerdict::Failed, "not registered", "install it"),
        ];
        let plain = anstream::adapter::strip_str(&render_findings(&findings)).to_string();
        assert_eq!(
            plain,
            "ok       pools: served\nfailed   webhook: not registered\n         -> install it\n"
        );
    }
}
