//! The page about metrics in the docs, made from what is registered.

use std::fmt::Write as _;

use vmpool_runtime::Env;
use vmpool_runtime::metrics::{Description, Label, Values};

use super::Metrics;

/// What stands above the table.
const HEAD: &str = "\
<!-- Generated from controller/src/metrics, do not edit. Run `cargo xtask generate`. -->

# Metrics

Every controller serves `/metrics` beside its probes, in the OpenMetrics text format, which Prometheus reads as it is. A
standby serves them, too: there, whatever only a leader knows is 0. Counters start at zero with the process, and go on when
leadership changes. [Operations](operations.md#metrics) says how to collect them and what is worth an alert.

No label names a pool, a machine or a namespace, so the number of time series does not grow with what the cluster holds;
it is some hundreds. Figures of single pools are in their status, where `kubectl` and autoscalers find them; an exporter of
custom resources, such as kube-state-metrics, makes time series of them where that is wanted.

Histograms come as `NAME_bucket`, `NAME_sum` and `NAME_count`.
";

/// The sections, each with the beginnings of the names that belong to it.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Leadership", &["vmpool_leader", "vmpool_lease_"]),
    ("Pools and machines", &["vmpool_pools", "vmpool_members"]),
    ("Removal", &["vmpool_deletions_", "vmpool_removal_"]),
    ("Passes and their queue", &["vmpool_passes_", "vmpool_pass_", "vmpool_workqueue_"]),
    ("Requests and writes", &["vmpool_api_", "vmpool_writes_", "vmpool_failures_"]),
    ("Caches and the ledger of own writes", &["vmpool_cache_", "vmpool_watch_", "vmpool_ledger_"]),
    ("The process", &["vmpool_build_", "process_"]),
];

/// The whole page, as Markdown.
pub fn page() -> String {
    let metrics = Metrics::new(&Env::system());
    let mut page = HEAD.to_owned();
    for (title, _) in SECTIONS {
        // A String takes every write.
        let _ = write!(
            page,
            "\n## {title}\n\n| Metric | Kind | Unit | Labels | Meaning |\n| --- | --- | --- | --- | --- |\n"
        );
        let mut explained: Vec<&Label> = Vec::new();
        let mut words = String::new();
        for metric in metrics.catalogue().iter().filter(|metric| section(metric) == Some(title)) {
            page.push_str(&row(metric));
            for label in &metric.labels {
                // Several metrics share a label: its words are explained once.
                if !explained.contains(&label) {
                    words.push_str(&glossary(metric, label));
                    explained.push(label);
                }
            }
        }
        if !words.is_empty() {
            page.push_str("\n| Label | Of | Value | Meaning |\n| --- | --- | --- | --- |\n");
            page.push_str(&words);
        }
    }
    page
}

/// The title of the section that a metric belongs to.
pub(super) fn section(metric: &Description) -> Option<&'static str> {
    let belongs = |starts: &[&str]| starts.iter().any(|start| metric.name.starts_with(start));
    SECTIONS.iter().find(|(_, starts)| belongs(starts)).map(|(title, _)| *title)
}

fn row(metric: &Description) -> String {
    let Description { name, kind, unit, labels, help } = metric;
    let labels: Vec<String> = labels
        .iter()
        .map(|label| match &label.values {
            Values::Open(text) => format!("`{}`: {text}", label.name),
            Values::Words(words) => format!("`{}`: {}", label.name, listed(words)),
        })
        .collect();
    format!("| `{name}` | {kind} | {unit} | {} | {help}. |\n", labels.join("; "))
}

/// What the words of a label mean, a row each.
fn glossary(metric: &Description, label: &Label) -> String {
    let words = match &label.values {
        Values::Words(words) => words.as_slice(),
        Values::Open(_) => &[],
    };
    let row = |(word, meaning): &(&str, &str)| {
        format!("| `{}` | `{}` | `{word}` | {meaning} |\n", label.name, metric.name)
    };
    words.iter().map(row).collect()
}

fn listed(words: &[(&str, &str)]) -> String {
    words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
