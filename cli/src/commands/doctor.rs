//! `doctor`: whether vmpool is installed completely and the user has the usual rights.

mod checks;
mod finding;

use std::fmt::Write as _;

use anyhow::{Result, bail};

use self::finding::{Finding, Verdict};
use crate::arguments::DoctorArguments;
use crate::cluster::Cluster;
use crate::output::print;
use crate::table::Tone;
use crate::visible::{visible, visible_lines};

/// Prints all findings.
///
/// # Errors
/// Something is not in order.
pub(crate) async fn run(cluster: &Cluster, arguments: &DoctorArguments) -> Result<()> {
    let findings = checks::all(cluster, &arguments.system_namespace).await;
    print(arguments.format.output, &text(&findings), &findings)?;
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Failed).count();
    if failed > 0 {
        bail!("{failed} checks failed");
    }
    Ok(())
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { check, verdict, what, remedy } in findings {
        let (word, tone) = match verdict {
            Verdict::Ok => ("ok", Tone::Good),
            Verdict::Unknown => ("unknown", Tone::Faint),
            Verdict::Warning => ("warning", Tone::Notice),
            Verdict::Failed => ("failed", Tone::Bad),
        };
        let _ = writeln!(
            text,
            "{} {}: {}",
            tone.paint(&format!("{word:<8}")),
            visible(check),
            visible_lines(what)
        );
        if !remedy.is_empty() {
            let _ = writeln!(text, "         -> {}", visible_lines(remedy));
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
            Finding::new("pools", Verdict::Ok, "served", ""),
            Finding::new("webhook", Verdict::Failed, "not registered", "install it"),
        ];
        let plain = anstream::adapter::strip_str(&text(&findings)).to_string();
        assert_eq!(
            plain,
            "ok       pools: served\nfailed   webhook: not registered\n         -> install it\n"
        );
    }
}
