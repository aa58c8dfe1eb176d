//! The table in the documentation matches the rules.

use std::fmt::Write as _;

use super::catalogue::rule_examples;
use super::{Rule, RuleSeverity};

const PAGE: &str = include_str!("../../../../../docs/admission.md");
const BEGIN: &str = "<!-- rules: begin. Checked by vmpool-dvp, admission::tests::page -->\n";
const END: &str = "<!-- rules: end -->\n";

/// The table and the texts below it.
fn table() -> String {
    let mut page = String::from("| Rule | What it says | Looked at | Broken |\n| --- | --- | --- | --- |\n");
    for rule in Rule::ALL {
        let result = match rule.severity() {
            RuleSeverity::Invalid | RuleSeverity::Required | RuleSeverity::NotSupported => "refused",
            RuleSeverity::Forbidden => "forbidden",
            RuleSeverity::Warning => "warning",
        };
        // Writes to a `String` always succeed.
        let _ = writeln!(page, "| {} | {} | {} | {result} |", rule.id(), rule.check(), rule.scope().as_str());
    }
    page.push_str(
        "\nWhat the user sees, by an example of each:\n\n| Rule | Text, with the way out |\n| --- | --- |\n",
    );
    for example in rule_examples() {
        let _ = writeln!(page, "| {} | `{}` |", example.rule.id(), example.text().replace('|', "\\|"));
    }
    page
}

#[test]
fn the_page_shows_the_rules_as_they_are() {
    let (_, rest) = PAGE.split_once(BEGIN).expect("docs/admission.md has the mark where the rules begin");
    let (shown, _) = rest.split_once(END).expect("docs/admission.md has the mark where the rules end");
    let table = table();
    assert!(shown == table, "docs/admission.md differs from the rules; put this between its marks:\n{table}");
}
