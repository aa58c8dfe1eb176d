//! Metrics as tables of Markdown, for the page of the documentation that is made from what is registered.

use std::fmt::Write as _;

use super::describe::{Description, Label, Values};

/// A title, and the beginnings of the names that belong under it.
pub type Section = (&'static str, &'static [&'static str]);

/// The title under which a metric belongs: of the first section that it fits.
pub fn section(sections: &[Section], metric: &Description) -> Option<&'static str> {
    let belongs = |starts: &[&str]| starts.iter().any(|start| metric.name.starts_with(start));
    sections.iter().find(|(_, starts)| belongs(starts)).map(|(title, _)| *title)
}

/// The sections with their metrics, each with kind, unit, labels and meaning, and what the words of its labels mean.
/// Metrics of no section are left out.
pub fn tables(sections: &[Section], catalogue: &[Description]) -> String {
    let mut page = String::new();
    for (title, _) in sections {
        // A String takes every write.
        let _ = write!(
            page,
            "\n## {title}\n\n| Metric | Kind | Unit | Labels | Meaning |\n| --- | --- | --- | --- | --- |\n"
        );
        let mut explained: Vec<&Label> = Vec::new();
        let mut words = String::new();
        for metric in catalogue.iter().filter(|metric| section(sections, metric) == Some(title)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Kind;

    fn metric(name: &'static str, labels: Vec<Label>) -> Description {
        Description { name, kind: Kind::Counter, unit: "things", help: "Things", labels }
    }

    #[test]
    fn each_metric_is_under_its_title_and_each_word_is_explained_once() {
        let result = Label {
            name: "result",
            values: Values::Words(vec![("good", "It went well."), ("bad", "It did not.")]),
        };
        let code = Label { name: "code", values: Values::Open("the HTTP code") };
        let catalogue = [
            metric("a_one_total", vec![result.clone(), code]),
            metric("a_two_total", vec![result]),
            metric("b_total", vec![]),
            metric("c_total", vec![]),
        ];
        let page = tables(&[("First", &["a_"]), ("Second", &["b_", "a_two"])], &catalogue);
        let expected = "
## First

| Metric | Kind | Unit | Labels | Meaning |
| --- | --- | --- | --- | --- |
| `a_one_total` | counter | things | `result`: `good`, `bad`; `code`: the HTTP code | Things. |
| `a_two_total` | counter | things | `result`: `good`, `bad` | Things. |

| Label | Of | Value | Meaning |
| --- | --- | --- | --- |
| `result` | `a_one_total` | `good` | It went well. |
| `result` | `a_one_total` | `bad` | It did not. |

## Second

| Metric | Kind | Unit | Labels | Meaning |
| --- | --- | --- | --- | --- |
| `b_total` | counter | things |  | Things. |
";
        assert_eq!(page, expected);
        assert_eq!(section(&[("First", &["a_"])], &catalogue[3]), None);
    }
}
