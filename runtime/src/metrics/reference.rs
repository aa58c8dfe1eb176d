//! Metrics as Markdown tables, for the reference page that is generated from the registered metrics.

use std::fmt::Write as _;

use super::describe::{Description, Label, Values};

/// A title, and the prefixes of the names of its metrics.
pub type Section = (&'static str, &'static [&'static str]);

/// The title of the first section with a prefix of the metric's name.
pub fn section_title(sections: &[Section], metric: &Description) -> Option<&'static str> {
    let belongs = |prefixes: &[&str]| prefixes.iter().any(|prefix| metric.name.starts_with(prefix));
    sections.iter().find(|(_, prefixes)| belongs(prefixes)).map(|(title, _)| *title)
}

/// The sections with their metrics. Each metric has its kind, unit, labels and meaning, and the meanings of
/// its label values. Metrics without a section are omitted.
pub fn metric_tables(sections: &[Section], catalogue: &[Description]) -> String {
    let mut page = String::new();
    for (title, _) in sections {
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n## {title}\n\n| Metric | Kind | Unit | Labels | Meaning |\n| --- | --- | --- | --- | --- |\n"
        );
        let mut explained: Vec<&Label> = Vec::new();
        let mut meanings = String::new();
        for metric in catalogue.iter().filter(|metric| section_title(sections, metric) == Some(title)) {
            page.push_str(&metric_row(metric));
            for label in &metric.labels {
                // Several metrics share a label: its values are explained once.
                if !explained.contains(&label) {
                    meanings.push_str(&value_rows(metric, label));
                    explained.push(label);
                }
            }
        }
        if !meanings.is_empty() {
            page.push_str("\n| Label | Of | Value | Meaning |\n| --- | --- | --- | --- |\n");
            page.push_str(&meanings);
        }
    }
    page
}

fn metric_row(metric: &Description) -> String {
    let Description { name, kind, unit, labels, help } = metric;
    let labels: Vec<String> = labels
        .iter()
        .map(|label| match &label.values {
            Values::Open(text) => format!("`{}`: {text}", label.name),
            Values::Fixed(values) => format!("`{}`: {}", label.name, list_label_values(values)),
        })
        .collect();
    format!("| `{name}` | {kind} | {unit} | {} | {help}. |\n", labels.join("; "))
}

/// One row for each value of a label, with its meaning.
fn value_rows(metric: &Description, label: &Label) -> String {
    let values = match &label.values {
        Values::Fixed(values) => values.as_slice(),
        Values::Open(_) => &[],
    };
    let row = |(value, meaning): &(&str, &str)| {
        format!("| `{}` | `{}` | `{value}` | {meaning} |\n", label.name, metric.name)
    };
    values.iter().map(row).collect()
}

fn list_label_values(values: &[(&str, &str)]) -> String {
    values.iter().map(|(value, _)| format!("`{value}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricKind;

    fn metric(name: &'static str, labels: Vec<Label>) -> Description {
        Description { name, kind: MetricKind::Counter, unit: "things", help: "Things", labels }
    }

    #[test]
    fn each_metric_is_under_its_title_and_each_label_value_is_explained_once() {
        let result = Label {
            name: "result",
            values: Values::Fixed(vec![("good", "It succeeded."), ("bad", "It failed.")]),
        };
        let code = Label { name: "code", values: Values::Open("the HTTP code") };
        let catalogue = [
            metric("a_one_total", vec![result.clone(), code]),
            metric("a_two_total", vec![result]),
            metric("b_total", vec![]),
            metric("c_total", vec![]),
        ];
        let page = metric_tables(&[("First", &["a_"]), ("Second", &["b_", "a_two"])], &catalogue);
        let expected = "
## First

| Metric | Kind | Unit | Labels | Meaning |
| --- | --- | --- | --- | --- |
| `a_one_total` | counter | things | `result`: `good`, `bad`; `code`: the HTTP code | Things. |
| `a_two_total` | counter | things | `result`: `good`, `bad` | Things. |

| Label | Of | Value | Meaning |
| --- | --- | --- | --- |
| `result` | `a_one_total` | `good` | It succeeded. |
| `result` | `a_one_total` | `bad` | It failed. |

## Second

| Metric | Kind | Unit | Labels | Meaning |
| --- | --- | --- | --- | --- |
| `b_total` | counter | things |  | Things. |
";
        assert_eq!(page, expected);
        assert_eq!(section_title(&[("First", &["a_"])], &catalogue[3]), None);
    }
}
