use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;

use super::super::sources::SourceTree;
use super::graph::Imports;
use super::{cycles, cyclic_imports, describe_cycles, roots};

/// The groups of files with cycles in a crate with these files.
fn components(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<Imports>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let found = cyclic_imports(&SourceTree::below(folder.path()), &folder.path().join("lib.rs")).unwrap();
    (folder, found)
}

fn names(folder: &Path, files: impl IntoIterator<Item = PathBuf>) -> Vec<String> {
    files.into_iter().map(|file| file.strip_prefix(folder).unwrap().display().to_string()).collect()
}

/// The names of the files in the groups.
fn cyclic_files(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let (folder, found) = components(files);
    found.into_iter().map(|component| names(folder.path(), component.into_keys())).collect()
}

const AB: &str = "mod a;\nmod b;\n";

#[rstest]
#[case::by_a_path_from_the_root("use crate::b::B;", "use crate::a::A;")]
#[case::by_a_path_from_the_parent("use super::b::B;", "use super::a::A;")]
#[case::in_a_group("use crate::{b::{self, B as C}};", "use crate::{a::A, a::*};")]
#[case::by_a_glob("use crate::b::*;", "use crate::a::*;")]
#[case::by_a_path_in_code("fn f() -> crate::b::B { super::b::B }", "use crate::a::A;")]
#[case::by_an_imported_module("use super::b; fn f() { b::g(); }", "use super::a; fn g() { a::f(); }")]
#[case::in_an_attribute("#[arg(value_parser = crate::b::parse)] struct A;", "use crate::a::A;")]
#[case::in_a_macro_call("fn f() { println!(\"{}\", crate::b::B); }", "use crate::a::A;")]
#[case::in_an_inline_module("mod inner { use super::super::b::B; }", "use crate::a::A;")]
#[case::in_a_function("fn f() { use crate::b::B; }", "use crate::a::A;")]
#[case::in_a_list_in_a_macro("macro_rules! m { () => { use crate::{b::B, c}; } }", "use crate::a::A;")]
#[case::after_a_test_import("#[cfg(test)]\nuse std::fmt;\nuse crate::b::B;", "use crate::a::A;")]
#[case::as_a_trait_of_a_type("type A = <u8 as crate::b::B>::C;", "use crate::a::A;")]
fn files_that_import_each_other_are_a_cycle(#[case] a: &str, #[case] b: &str) {
    assert_eq!(cyclic_files(&[("lib.rs", AB), ("a.rs", a), ("b.rs", b)]), [["a.rs", "b.rs"]]);
}

#[rstest]
#[case::in_one_direction("use crate::b::B;", "use std::fmt;")]
#[case::of_another_crate("use b::B as other; use ::b::B;", "use crate::a::A;")]
#[case::in_test_code(
    "#[cfg(test)]\nuse crate::b::B;\n#[cfg(test)]\nmod tests { use crate::b::B; }",
    "use crate::a::A;"
)]
#[case::in_a_test_function("#[cfg(test)]\nfn f() { crate::b::g(); }\nfn h() {}", "use crate::a::A;")]
#[case::in_a_test_field("struct A { #[cfg(test)] b: crate::b::B, c: u8 }", "use crate::a::A;")]
#[case::in_a_test_file("#[cfg(test)]\nmod tests;", "use crate::a::A;")]
#[case::in_a_comment("// use crate::b::B;\n/* crate::b::B */", "use crate::a::A;")]
#[case::in_a_string("const A: &str = \"crate::b::B\";", "use crate::a::A;")]
#[case::within_an_inline_module("mod b { pub struct B; }\nmod c { use super::b::B; }", "use crate::a::A;")]
fn other_imports_are_no_cycle(#[case] a: &str, #[case] b: &str) {
    let tests = ("a/tests.rs", "use super::*; use crate::b::B;");
    assert_eq!(cyclic_files(&[("lib.rs", AB), ("a.rs", a), ("b.rs", b), tests]), [[""; 0]; 0]);
}

#[test]
fn a_parent_and_a_child_that_import_each_other_are_a_cycle() {
    let lib = "mod a;";
    let a = "mod child;\npub struct A;\nfn f() { child::g(); }";
    let cyclic = [["a/child.rs", "a.rs"]];
    assert_eq!(cyclic_files(&[("lib.rs", lib), ("a.rs", a), ("a/child.rs", "use super::A;")]), cyclic);
    assert_eq!(cyclic_files(&[("lib.rs", lib), ("a.rs", a), ("a/child.rs", "")]), [[""; 0]; 0]);
    let in_folder = [("lib.rs", lib), ("a/mod.rs", a), ("a/child.rs", "use super::A;")];
    assert_eq!(cyclic_files(&in_folder), [["a/child.rs", "a/mod.rs"]]);
    let by_path = [
        ("lib.rs", "#[path = \"other/b.rs\"]\nmod a;\nuse a::A;\npub struct B;"),
        ("other/b.rs", "use crate::B;"),
    ];
    assert_eq!(cyclic_files(&by_path), [["lib.rs", "other/b.rs"]]);
}

#[test]
fn a_reexport_counts_as_an_import_of_the_defining_file() {
    // The root re-exports both, and each imports the other crate item through the root or not at all.
    let lib = "mod a;\nmod b;\npub use a::A;\npub use b::{B, g};\npub use self::a::*;";
    let through_the_root =
        [("lib.rs", lib), ("a.rs", "pub struct A;"), ("b.rs", "use crate::A; pub struct B;")];
    assert_eq!(cyclic_files(&through_the_root), [[""; 0]; 0]);
    let both =
        [("lib.rs", lib), ("a.rs", "use crate::B; pub struct A;"), ("b.rs", "use crate::A; pub struct B;")];
    assert_eq!(cyclic_files(&both), [["a.rs", "b.rs"]]);
    let by_glob = [
        ("lib.rs", "mod a;\nmod b;\npub use a::*;"),
        ("a.rs", "use crate::b::B;\npub fn f() {}"),
        ("b.rs", "use crate::f;"),
    ];
    assert_eq!(cyclic_files(&by_glob), [["a.rs", "b.rs"]]);
}

#[test]
fn a_reexport_is_an_import_only_if_its_file_uses_the_name() {
    let child = ("a.rs", "use super::T;\npub struct A(T);");
    let only_listed = [("lib.rs", "mod a;\npub use a::A;\npub struct T;"), child];
    assert_eq!(cyclic_files(&only_listed), [[""; 0]; 0]);
    let used = [("lib.rs", "mod a;\npub use a::A;\npub struct T;\nfn f(a: &A) {}"), child];
    assert_eq!(cyclic_files(&used), [["a.rs", "lib.rs"]]);
}

#[test]
fn a_use_in_a_macro_is_read_to_its_end() {
    let a = "macro_rules! m { ($p:path) => { use $p; use $crate::b::B; } }";
    assert_eq!(
        cyclic_files(&[("lib.rs", AB), ("a.rs", a), ("b.rs", "use crate::a::A;")]),
        [["a.rs", "b.rs"]]
    );
}

#[test]
fn an_exported_macro_belongs_to_its_file() {
    let a = "#[macro_export]\nmacro_rules! m { () => { $crate::b::B } }";
    assert_eq!(cyclic_files(&[("lib.rs", AB), ("a.rs", a), ("b.rs", "use crate::m;")]), [["a.rs", "b.rs"]]);
    let a = "#[macro_export]\nmacro_rules! m { () => {} }";
    assert_eq!(cyclic_files(&[("lib.rs", AB), ("a.rs", a), ("b.rs", "use crate::m;")]), [[""; 0]; 0]);
}

#[test]
fn imports_that_lead_back_to_their_start_end() {
    let files = [
        ("lib.rs", AB),
        ("a.rs", "pub use crate::b::X;"),
        ("b.rs", "pub use crate::a::X;\nuse x::y;\nuse y::x;"),
    ];
    drop(cyclic_files(&files));
}

#[test]
fn the_shortest_cycle_of_a_group_is_named() {
    let lib = "mod a;\nmod b;\nmod c;\nmod d;";
    let files = [
        ("lib.rs", lib),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::{a::A, d::D};"),
        ("d.rs", "use crate::c::C;"),
    ];
    let (folder, found) = components(&files);
    assert_eq!(names(folder.path(), cycles::shortest_cycle(&found[0])), ["c.rs", "d.rs"]);
    let text = describe_cycles("p", &found, &SourceTree::below(folder.path())).unwrap();
    assert!(text.starts_with("p: 4 files are in import cycles"), "{text}");
    assert!(
        text.contains("c.rs imports d.rs (crate::d::D)\n      d.rs imports c.rs (crate::c::C)"),
        "{text}"
    );
}

#[test]
fn a_package_without_cycles_has_no_problem() {
    let (folder, found) =
        components(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")]);
    assert_eq!(describe_cycles("p", &found, &SourceTree::below(folder.path())), None);
}

#[test]
fn libraries_and_programs_are_checked() {
    let metadata = serde_json::json!({ "packages": [{ "name": "p", "targets": [
        { "kind": ["lib"], "src_path": "/p/src/lib.rs" },
        { "kind": ["bin"], "src_path": "/p/src/main.rs" },
        { "kind": ["test"], "src_path": "/p/tests/t.rs" },
    ]}]});
    let found: Vec<_> = roots(&metadata).into_values().flatten().collect();
    assert_eq!(found, [Path::new("/p/src/lib.rs"), Path::new("/p/src/main.rs")]);
}
