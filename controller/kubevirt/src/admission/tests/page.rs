//! The table in the documentation matches the rules.

use std::fmt::Write as _;

use super::{Rule, RuleSeverity};

const PAGE: &str = include_str!("../../../../../docs/admission.md");
const BEGIN: &str = "<!-- kubevirt rules: begin. Checked by vmpool-kubevirt, admission::tests::page -->\n";
const END: &str = "<!-- kubevirt rules: end -->\n";

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
    page
}

#[test]
fn the_page_shows_the_rules_as_they_are() {
    let (_, rest) = PAGE.split_once(BEGIN).expect("docs/admission.md has the mark where the rules begin");
    let (shown, _) = rest.split_once(END).expect("docs/admission.md has the mark where the rules end");
    let table = table();
    assert!(shown == table, "docs/admission.md differs from the rules; put this between its marks:\n{table}");
}
