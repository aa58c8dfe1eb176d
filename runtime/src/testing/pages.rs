//! What a page of the documentation has of a program: for tests that keep the two together.

use clap::Command;

use crate::metrics::{Description, Values};

/// The differences between the flags of `command` and the table in the section `## Flags` of `page`, whose rows begin
/// with flag, variable and default. None, if the page is right.
pub fn flag_differences(command: &Command, page: &str) -> Vec<String> {
    let Some((_, section)) = page.split_once("\n## Flags\n") else {
        return vec!["there is no section `## Flags`".to_owned()];
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `--")).collect();
    let mut differences = Vec::new();
    for argument in command.get_arguments() {
        let Some(flag) = argument.get_long().filter(|flag| !["help", "version"].contains(flag)) else {
            continue;
        };
        let variable = argument.get_env().unwrap_or_default().to_string_lossy();
        let default: String =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = if default.is_empty() { default } else { format!("`{default}` ") };
        let head = format!("| `--{flag}` | `{variable}` | {default}| ");
        match rows.iter().position(|row| row.starts_with(&head)) {
            Some(row) => drop(rows.remove(row)),
            None => differences.push(format!("no row begins with {head}")),
        }
    }
    differences.extend(rows.into_iter().map(|row| format!("there is no such flag: {row}")));
    differences
}

/// What `page` lacks of these metrics: a row that begins with name and kind, and in it every label, and every word that
/// a label can have. A label of whose words another row says that they are the same needs its name only.
pub fn metrics_missing<'a>(metrics: impl IntoIterator<Item = &'a Description>, page: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for metric in metrics {
        let head = format!("| `{}` | {} |", metric.name, metric.kind);
        let Some(row) = page.lines().find(|line| line.starts_with(&head)) else {
            missing.push(format!("no row begins with {head}"));
            continue;
        };
        for label in &metric.labels {
            if !row.contains(&format!("`{}`", label.name)) {
                missing.push(format!("{}: label {}", metric.name, label.name));
            }
            let Values::Words(words) = &label.values else { continue };
            let words = words.iter().filter(|_| !row.contains(": the same"));
            let lacks = words.filter(|(word, _)| !row.contains(&format!("`{word}`")));
            missing.extend(lacks.map(|(word, _)| format!("{}: word {word}", metric.name)));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;
    use crate::metrics::{Kind, Label};

    #[test]
    fn every_kind_of_difference_in_flags_is_told() {
        let flag = |name: &'static str, variable: &'static str| Arg::new(name).long(name).env(variable);
        let command =
            Command::new("p").arg(flag("size", "SIZE").default_value("5")).arg(flag("name", "NAME"));
        let page = "# P\n\n## Flags\n\n| `--size` | `SIZE` | `5` | How much |\n| `--name` | `NAME` | | Who |\n\n## More\n| `--x`";
        assert_eq!(flag_differences(&command, page), [""; 0]);
        let wrong = page.replace("`5`", "`6`").replace("--name", "--names");
        assert_eq!(flag_differences(&command, &wrong).len(), 4);
        assert_eq!(flag_differences(&command, "# P").len(), 1);
    }

    #[test]
    fn every_kind_of_gap_in_metrics_is_told() {
        let words = Values::Words(vec![("good", "It went well."), ("bad", "It did not.")]);
        let labels = vec![Label { name: "result", values: words }];
        let metric =
            Description { name: "x_total", kind: Kind::Counter, unit: "things", help: "Things", labels };
        let page = "| `x_total` | counter | `result`: `good`, `bad` | Things |";
        assert_eq!(metrics_missing([&metric], page), [""; 0]);
        assert_eq!(metrics_missing([&metric], &page.replace("`bad`", "bad")), ["x_total: word bad"]);
        assert_eq!(metrics_missing([&metric], &page.replace("`result`", "")), ["x_total: label result"]);
        assert_eq!(metrics_missing([&metric], "").len(), 1);
    }
}
