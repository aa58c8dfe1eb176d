//! What a report contains, and how it is written: one YAML document with an overview, and one for each
//! section.

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::redact::redact_value;

/// Objects of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct IssueReportSection {
    /// What they are.
    pub(super) section: String,
    /// The redacted objects.
    pub(super) items: Vec<Value>,
}

/// A report. It contains redacted values only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IssueReport {
    sections: Vec<IssueReportSection>,
    unreadable: Vec<String>,
}

impl IssueReport {
    /// Adds objects, which it redacts. A section without objects is omitted.
    pub(super) fn add(&mut self, section: &str, objects: &[Value]) {
        if !objects.is_empty() {
            let items = objects.iter().map(redact_value).collect();
            self.sections.push(IssueReportSection { section: section.to_owned(), items });
        }
    }

    /// Adds why something is missing, once.
    pub(super) fn add_unreadable(&mut self, error: &anyhow::Error) {
        let why = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
        if !self.unreadable.contains(&why) {
            self.unreadable.push(why);
        }
    }

    /// What is missing, and why.
    pub(super) fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Each section with its number of objects.
    pub(super) fn counts(&self) -> String {
        let count = |section: &IssueReportSection| format!("{}: {}", section.section, section.items.len());
        self.sections.iter().map(count).collect::<Vec<_>>().join(", ")
    }

    /// The report as a stream of YAML documents.
    ///
    /// # Errors
    /// A value cannot be written as YAML.
    pub(super) fn to_yaml(&self, subject: &str, now: Timestamp) -> Result<String> {
        let overview = json!({
            "report": "vmpool",
            "subject": subject,
            "created": now.to_string(),
            "redacted": "user data of guests, values of environments, annotations of other programs, addresses, \
                         tokens and CA data are replaced by their size; Secrets were not read",
            "contents": self.counts(),
            "unreadable": redact_value(&json!(self.unreadable)),
        });
        let mut text = serde_yaml_ng::to_string(&overview).context("writing the overview")?;
        for section in &self.sections {
            text.push_str("---\n");
            let part = serde_yaml_ng::to_string(section);
            text.push_str(&part.with_context(|| format!("writing {}", section.section))?);
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_report_contains_redacted_objects_and_what_is_missing() {
        let mut report = IssueReport::default();
        report.add("pools", &[json!({ "metadata": { "name": "web" }, "userData": "s3cret" })]);
        report.add("disks", &[]);
        for _ in 0..2 {
            report.add_unreadable(&anyhow!("you may not list pods of 10.0.0.1\nask an administrator"));
        }
        assert_eq!(report.counts(), "pools: 1");
        let yaml = report.to_yaml("pool web in namespace team-a", Timestamp::UNIX_EPOCH).unwrap();
        assert!(yaml.contains("name: web") && yaml.contains("redacted (6 bytes)"), "{yaml}");
        assert!(yaml.contains("- you may not list pods of redacted (8 bytes)"), "{yaml}");
        assert!(!yaml.contains("s3cret") && !yaml.contains("disks"), "{yaml}");
        assert_eq!(yaml.matches("---\n").count(), 1, "{yaml}");
    }
}
