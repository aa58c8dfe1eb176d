use std::collections::BTreeMap;
use std::path::PathBuf;

use rstest::rstest;

use super::rules::{SourceScope, VisibleType, inspect_source};
use super::{rule_scope, shared_type_names};

/// What the rules say about a text.
fn findings(text: &str, scope: SourceScope) -> Vec<String> {
    let file = syn::parse_file(text).unwrap();
    inspect_source(&file, text, scope).findings.into_iter().map(|finding| finding.what).collect()
}

#[rstest]
#[case::one_word_function("fn kept() {}", "where it stands alone")]
#[case::tuple("fn find_disk(place: (u8, u8)) {}", "takes a tuple")]
#[case::reference_to_a_tuple("fn find_disk(place: &(u8, u8)) {}", "takes a tuple")]
#[case::text_as_error("fn read_pool() -> Result<(), String> { Ok(()) }", "is a String")]
#[case::text_as_error_of_a_method("impl A { fn read(&self) -> Result<u8, String> { Ok(1) } }", "is a String")]
#[case::restricted_to_a_module("pub(in crate::a) struct A;", "pub(in ...)")]
#[case::word_of_the_glossary("fn count_members() {}", "contains \"members\"")]
#[case::word_in_a_field("struct A { member: u8 }", "contains \"member\"")]
#[case::word_in_a_variable("fn count_machines() { let member = 1; }", "contains \"member\"")]
fn a_name_or_signature_is_refused(#[case] text: &str, #[case] expected: &str) {
    let found = findings(text, SourceScope::Product);
    assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
}

#[rstest]
#[case::main("fn main() {}")]
#[case::verb_and_object("fn find_disk(disk: &Disk) -> Result<(), Error> { Ok(()) }")]
#[case::method_of_one_word("impl A { fn find(&self) {} }")]
#[case::test_module("#[cfg(test)] mod tests { fn disk() -> Result<(), String> { Ok(()) } }")]
#[case::unit("fn find_disk(none: ()) {}")]
#[case::parent("pub(super) struct A;")]
fn other_names_and_signatures_are_accepted(#[case] text: &str) {
    assert_eq!(findings(text, SourceScope::Product), Vec::<String>::new());
}

#[test]
fn tests_may_have_functions_of_one_word_and_texts_as_errors() {
    let text = "fn disk(place: (u8, u8)) -> Result<(), String> { Ok(()) }";
    assert_eq!(findings(text, SourceScope::Test), Vec::<String>::new());
}

#[test]
fn a_comment_is_as_narrow_as_code_unless_it_is_a_link() {
    let comment = |text: &str| format!("// {text}\nfn find_disk() {{}}\n");
    assert_eq!(
        findings(&comment(&"a ".repeat(60)), SourceScope::Test),
        ["a comment is wider than 110 columns"]
    );
    assert_eq!(
        findings(&comment(&format!("https://{}", "a".repeat(110))), SourceScope::Test),
        Vec::<String>::new()
    );
}

#[rstest]
#[case::product("controller/src/pools/reconcile.rs", SourceScope::Product)]
#[case::test_module("controller/src/pools/reconcile/tests/pools.rs", SourceScope::Test)]
#[case::test_file("controller/src/pools/reconcile/tests.rs", SourceScope::Test)]
#[case::test_harness("e2e/src/world.rs", SourceScope::Test)]
#[case::tool("hack/src/main.rs", SourceScope::Test)]
fn the_place_of_a_file_decides_which_rules_apply(#[case] file: &str, #[case] expected: SourceScope) {
    assert_eq!(rule_scope(&PathBuf::from(file)), expected);
}

#[test]
fn visible_types_have_names_of_their_own() {
    let visible = |name: &str, file: &str| VisibleType { name: name.to_owned(), file: file.into(), line: 3 };
    let types = BTreeMap::from([
        ("Disk".to_owned(), vec![visible("Disk", "a.rs"), visible("Disk", "b.rs")]),
        ("Error".to_owned(), vec![visible("Error", "a.rs"), visible("Error", "b.rs")]),
        ("Pool".to_owned(), vec![visible("Pool", "a.rs")]),
    ]);
    assert_eq!(shared_type_names(&types), ["several types have the name Disk: a.rs:3, b.rs:3"]);
}

#[test]
fn private_types_are_not_visible() {
    let file =
        syn::parse_file("struct A; pub struct B; pub(crate) enum C {} pub(super) type D = u8;").unwrap();
    let names: Vec<String> = inspect_source(&file, "", SourceScope::Product)
        .types
        .into_iter()
        .map(|visible| visible.name)
        .collect();
    assert_eq!(names, ["B", "C", "D"]);
}
