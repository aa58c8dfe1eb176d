use std::collections::BTreeSet;

use clap::CommandFactory;
use vmpool_installation::workspace_root;

use super::*;
use crate::options::BenchOptions;

fn page() -> String {
    std::fs::read_to_string(workspace_root().join("docs/benchmarks.md")).unwrap()
}

/// First cells of the table rows below a header.
fn rows<'a>(page: &'a str, header: &str) -> Vec<&'a str> {
    let rows = page.split(header).skip(1).flat_map(|rest| {
        // The separator line of the table follows the header.
        rest.lines().skip(2).take_while(|line| line.starts_with("| "))
    });
    rows.collect()
}

#[test]
fn the_page_has_the_same_tables() {
    let page = page();
    let unit = |entry: &FigureDescription| if entry.unit.is_empty() { "–" } else { entry.unit };
    let expected: Vec<String> = all_figures()
        .map(|entry| format!("| `{}` | {} | {} |", entry.key, unit(entry), entry.meaning))
        .collect();
    assert_eq!(rows(&page, "| Figure | Unit | Meaning |"), expected);
}

#[test]
fn names_of_figures_are_unique() {
    let names: BTreeSet<&str> = all_figures().map(|entry| entry.key).collect();
    assert_eq!(names.len(), all_figures().count());
}

#[test]
fn the_page_lists_every_variable() {
    let page = page();
    let listed: BTreeSet<String> = rows(&page, "| Variable | Default | Meaning |")
        .iter()
        .filter_map(|row| row.split('`').nth(1).map(str::to_owned))
        .collect();
    let taken: BTreeSet<String> = BenchOptions::command()
        .get_arguments()
        .filter_map(|argument| argument.get_env().map(|name| name.to_string_lossy().into_owned()))
        .collect();
    assert_eq!(listed, taken);
}
