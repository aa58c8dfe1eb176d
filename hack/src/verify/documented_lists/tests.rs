use std::fs;

use rstest::rstest;
use serde_json::json;

use super::markdown::{arrow_list, numbered_doc_items, table_rows};
use super::source::{called_modules, enum_variants, public_traits};
use super::{
    TRAITS_WITHOUT_ROW, crate_table_differences, list_differences, missing_paths, trait_table_differences,
};

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::equal(&["a", "b"], &[])]
#[case::missing(&["a"], &["the list lack b"])]
#[case::stale(&["a", "b", "c"], &["the list contain c, which the code does not have"])]
#[case::repeated(&["a", "b", "b"], &["the list contain b twice"])]
#[case::another_order(&["b", "a"], &["the list have another order than the code: a, b"])]
fn a_list_has_exactly_the_names_of_the_code_in_their_order(
    #[case] documented: &[&str],
    #[case] expected: &[&str],
) {
    assert_eq!(list_differences("the list", &names(documented), &names(&["a", "b"])), names(expected));
}

#[test]
fn the_planners_are_the_modules_that_the_function_calls_in_its_order() {
    let text = "
        mod removal; mod creation;
        use crate::disks;
        use crate::machines::{self, finalizers, healing, result::Plan};
        use super::other;
        pub fn plan_pass(pool: &Pool) -> Plan {
            if pool.deleting {
                finalizers::plan_deletion(pool);
                return creation::end(pool);
            }
            if pool.paused { healing::end(pool); }
            let free = disks::FreeDisks::new(pool);
            let disks::Checked { growth } = removal::plan_removals(pool);
            creation::plan_creates(pool, growth);
            removal::plan_rest(pool);
            machines::plan_machines(pool, Plan::default());
            other::note(pool);
            finalizers::plan_finalizers(pool)
        }
        fn other() { disks::plan_disks(); }
    ";
    let called = called_modules(&syn::parse_file(text).unwrap(), "plan_pass");
    assert_eq!(called, ["healing", "removal", "creation", "machines", "finalizers"]);
}

#[test]
fn the_items_in_the_documentation_of_a_module_are_read() {
    let text = "//! The order:\n//!\n//! 1. `removal`: see `a`\n//!    and `b`;\n//! 2. `creation`.\n//! * `c`\nmod d;\n//! 3. `e`\n";
    assert_eq!(numbered_doc_items(text), ["removal", "creation"]);
}

#[test]
fn the_stages_of_a_drawing_and_of_an_enum_are_read() {
    let page = " │ plan\n ├── apply     Repair ─> Create ─> CleanUp\n │ Create ─> Other\n";
    let source = "pub enum Other { A } pub enum Stage { /// First.\n Repair, Create, CleanUp }";
    assert_eq!(arrow_list(page, "├── apply"), ["Repair", "Create", "CleanUp"]);
    assert_eq!(enum_variants(&syn::parse_file(source).unwrap(), "Stage"), ["Repair", "Create", "CleanUp"]);
    assert_eq!(arrow_list(page, "├── report"), Vec::<String>::new());
}

#[test]
fn a_table_ends_where_its_rows_end() {
    let page = "| A | B |\n| --- | --- |\n| `x` | y |\n\n| C | D |\n| --- | --- |\n| z | w |\n";
    assert_eq!(table_rows(page, "A"), [names(&["`x`", "y"])]);
    assert_eq!(table_rows(page, "E"), Vec::<Vec<String>>::new());
}

#[test]
fn only_public_traits_need_a_row() {
    let text = "pub trait Disks {} pub(crate) trait Hidden {} trait Private {} pub struct NoDisks;";
    assert_eq!(public_traits(&syn::parse_file(text).unwrap()), ["Disks"]);
}

/// A page with a table of these traits.
fn trait_page(traits: &[&str]) -> String {
    let rows: Vec<String> = traits.iter().map(|name| format!("| `{name}` | disks |\n")).collect();
    let rows = rows.concat();
    format!("text\n\n| Trait | What it translates |\n| --- | --- |\n{rows}\ntext\n")
}

#[test]
fn the_table_of_traits_has_a_row_for_each_public_trait_without_an_exception() {
    let exceptions: Vec<&str> = TRAITS_WITHOUT_ROW.iter().map(|(name, _)| *name).collect();
    let traits = names(&[exceptions.as_slice(), &["Disks", "Wording"]].concat());
    assert_eq!(trait_table_differences(&trait_page(&["Wording", "Disks"]), &traits), names(&[]));
    assert_eq!(
        trait_table_differences(&trait_page(&["Disks", "Gone"]), &traits),
        [
            "the traits in docs/architecture.md contain Gone, which the code does not have",
            "the traits in docs/architecture.md lack Wording"
        ]
    );
}

#[test]
fn an_exception_for_a_trait_that_does_not_exist_is_found() {
    let found = trait_table_differences(&trait_page(&["Disks"]), &names(&["Disks"]));
    assert_eq!(found.len(), TRAITS_WITHOUT_ROW.len(), "{found:?}");
    assert!(found[0].starts_with("ApiObject is an exception, but no trait"), "{found:?}");
}

#[rstest]
#[case::as_the_rule_allows("`vmpool-feature-gates`, `vmpool-api`", "none", None)]
#[case::one_too_few(
    "`vmpool-api`",
    "none",
    Some("for vmpool-runtime in docs/architecture.md lack vmpool-feature-gates")
)]
#[case::words_instead_of_names("the first two", "none", Some("lack vmpool-api"))]
#[case::one_too_many(
    "`vmpool-api`, `vmpool-feature-gates`",
    "`vmpool-api`",
    Some("for vmpool-api in docs/architecture.md contain vmpool-api")
)]
#[case::words_for_none("`vmpool-api`, `vmpool-feature-gates`", "", Some("must be the word none"))]
fn the_table_of_crates_lists_what_the_rules_allow(
    #[case] runtime: &str,
    #[case] api: &str,
    #[case] expected: Option<&str>,
) {
    // A crate without a rule lists the dependencies of its manifest, without those of tests.
    let page = format!(
        "| Folder | Crate | What it owns | Crates |\n| --- | --- | --- | --- |\n\
         | `api/` | `vmpool-api` | types | {api} |\n\
         | `gates/` | `vmpool-feature-gates` | gates | none |\n\
         | `runtime/` | `vmpool-runtime` | tasks | {runtime} |\n\
         | `demo/` | `vmpool-demo` | the demo | `vmpool-runtime` |\n"
    );
    let metadata = json!({ "packages": [
        { "name": "vmpool-api", "dependencies": [] },
        { "name": "vmpool-feature-gates", "dependencies": [] },
        { "name": "vmpool-runtime", "dependencies": [{ "name": "vmpool-api", "kind": null }] },
        { "name": "vmpool-demo", "dependencies": [
            { "name": "vmpool-runtime", "kind": null },
            { "name": "vmpool-api", "kind": "dev" },
            { "name": "serde", "kind": null },
        ] },
    ] });
    let found = crate_table_differences(&page, &metadata);
    match expected {
        None => assert_eq!(found, names(&[])),
        Some(expected) => assert!(found.iter().any(|line| line.contains(expected)), "{found:?}"),
    }
}

#[test]
fn a_crate_without_a_row_is_found() {
    let metadata = json!({ "packages": [{ "name": "vmpool-new", "dependencies": [] }] });
    assert_eq!(
        crate_table_differences("no table", &metadata),
        ["the crates in docs/architecture.md lack vmpool-new"]
    );
}

#[test]
fn a_path_on_the_page_about_extensions_exists() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("api/src")).unwrap();
    fs::write(folder.path().join("api/src/lib.rs"), "").unwrap();
    let page = "| `api/src/lib.rs` | `api/src/` and `api/gone.rs` |\n`spec/a` `vmpool.dev/force` `api` `/` `cargo x`\n";
    assert_eq!(
        missing_paths(folder.path(), page),
        ["docs/extending.md names api/gone.rs, which does not exist"]
    );
}
