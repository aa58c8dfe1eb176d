use std::fs;
use std::time::Duration;

use rstest::rstest;

use super::crate_boundaries::{WALLS, forbidden_dependencies};
use super::hygiene::{declared_source_files, find_unused_sources, has_tests, ignored_test_lines};
use super::report::VerificationReport;
use super::sources::{DeclaredModule, SourceTree, declared_modules};
use super::steps::STEPS;

#[test]
fn a_file_that_no_module_declares_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    let root = write("lib.rs", "pub(crate) mod a;\n#[cfg(test)]\nmod tests;\n// mod lost;\n");
    let a = write("a.rs", "mod deep;\n");
    let deep = write("a/deep/mod.rs", "mod deeper;\n");
    let deeper = write("a/deep/deeper.rs", "");
    let tests = write("tests.rs", "");
    let lost = write("lost.rs", "");

    let found =
        declared_source_files(&SourceTree::below(folder.path()), std::slice::from_ref(&root)).unwrap();

    assert!(!found.contains(&lost), "{found:?}");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [deeper, deep, a, root, tests]);
}

#[test]
fn every_kind_of_unused_source_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("p/src")).unwrap();
    fs::create_dir_all(path("p/tests")).unwrap();
    fs::write(path(".dockerignore"), "*\n!q\n").unwrap();
    fs::write(path("p/src/main.rs"), "#[test]\nfn a() {}\n").unwrap();
    fs::write(path("p/src/lost.rs"), "").unwrap();
    fs::write(path("p/tests/own.rs"), "#[test]\n#[ignore]\nfn b() {}\nfn main() {}\n").unwrap();
    let target = |kind: &str, file: &str| serde_json::json!({ "kind": [kind], "src_path": path(file), "test": kind != "bin" });
    let mut tree = SourceTree::below(folder.path());
    tree.metadata = serde_json::json!({ "packages": [{
        "manifest_path": path("p/Cargo.toml"),
        "targets": [target("bin", "p/src/main.rs"), target("test", "p/tests/own.rs")],
    }]});
    let found = find_unused_sources(&tree).unwrap();
    let expected = [
        "p: .dockerignore excludes this package",
        "own.rs: tests of a target that does not run them",
        "main.rs: tests of a target that does not run them",
        "lost.rs: no module declares this file",
        "own.rs:2: an ignored test",
    ];
    for expected in expected {
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:?}");
}

#[test]
fn module_declarations_are_parsed() {
    let text = "mod a;\npub mod b;\npub(in crate::x) mod c;\nmod inline {\n}\n#[path = \"other/d.rs\"]\nmod d;\n#[cfg(test)]\nmod e;\n";
    let module = |name: &str, path: Option<&str>, is_test: bool| DeclaredModule {
        name: name.to_owned(),
        path: path.map(str::to_owned),
        is_test,
    };
    let (a, b, c, e) = (
        module("a", None, false),
        module("b", None, false),
        module("c", None, false),
        module("e", None, true),
    );
    let expected = [a, b, c, module("d", Some("other/d.rs"), false), e];
    assert_eq!(declared_modules(&syn::parse_file(text).unwrap()), expected);
}

#[test]
fn ignored_tests_and_examples_are_found() {
    let text = [
        "#[test]",
        "    #[ignore = \"slow\"]",
        "/// ```rust,ignore",
        "/// ```no_run",
        "#[cfg_attr(windows, ignore)]",
        "// ignore",
    ];
    assert_eq!(ignored_test_lines(&text.join("\n")), [2, 3, 5]);
}

#[rstest]
#[case("    #[test]", true)]
#[case("#[tokio::test(start_paused = true)]", true)]
#[case("#[cfg(test)]\nmod tests;", false)]
#[case("// a #[test] of something", false)]
fn tests_are_found(#[case] text: &str, #[case] found: bool) {
    assert_eq!(has_tests(text), found);
}

#[test]
fn every_need_is_an_earlier_step_and_the_tests_come_last() {
    for (index, step) in STEPS.iter().enumerate() {
        for need in step.needs {
            assert!(STEPS[..index].iter().any(|earlier| earlier.name == *need), "{} needs {need}", step.name);
        }
    }
    assert_eq!(STEPS.last().unwrap().name, "tests");
}

#[test]
fn a_step_is_selected_with_all_that_it_needs() {
    let names = |chosen: &[&str]| -> Vec<&str> {
        let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        super::steps::select_steps(&chosen).iter().map(|step| step.name).collect()
    };
    assert_eq!(names(&["docs", "format"]), ["format", "docs"]);
    assert_eq!(names(&["chart"]), ["tools", "build", "chart"]);
    assert_eq!(names(&[]).len(), STEPS.len());
}

#[test]
fn all_failures_and_unrun_steps_are_reported() {
    let mut report = VerificationReport::default();
    report.succeeded(&STEPS[0], Duration::ZERO);
    report.failed(&STEPS[1], Duration::ZERO, &anyhow::anyhow!("lost.rs"));
    report.skipped(&STEPS[2], "needs hygiene");

    assert_eq!(report.failures().len(), 2);
    assert!(report.failures()[0].ends_with(STEPS[1].command), "{:?}", report.failures());
    assert!(report.passed(STEPS[0].name));
    assert!(!report.passed(STEPS[1].name) && !report.passed(STEPS[2].name));
}

/// The metadata of a workspace of the crates with rules, with these dependencies of the engine as
/// `(name, kind)`.
fn engine_with(dependencies: &[(&str, Option<&str>)]) -> serde_json::Value {
    let dependencies: Vec<_> =
        dependencies.iter().map(|(name, kind)| serde_json::json!({ "name": name, "kind": kind })).collect();
    let packages = WALLS.iter().map(|wall| {
        let own = if wall.package == "vmpool-engine" { dependencies.as_slice() } else { &[] };
        serde_json::json!({ "name": wall.package, "dependencies": own })
    });
    serde_json::json!({ "packages": packages.collect::<Vec<_>>() })
}

#[rstest]
#[case::an_allowed_crate("vmpool-api", None, 0)]
#[case::an_external_crate_without_io("serde", None, 0)]
#[case::a_runtime("tokio", None, 1)]
#[case::a_runtime_in_tests("tokio", Some("dev"), 0)]
#[case::the_shell("vmpool-controller", None, 1)]
fn the_engine_must_not_depend_on_a_runtime(
    #[case] name: &str,
    #[case] kind: Option<&str>,
    #[case] found: usize,
) {
    assert_eq!(forbidden_dependencies(&engine_with(&[(name, kind)])).len(), found);
}

#[test]
fn a_rule_without_its_crate_is_found() {
    let found = forbidden_dependencies(&serde_json::json!({ "packages": [] }));
    assert_eq!(found.len(), WALLS.len());
    assert!(found[0].ends_with("has a rule, but is not in the workspace"), "{found:?}");
}

#[test]
fn a_source_that_is_not_rust_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.rs"), "fn {").unwrap();
    let error = SourceTree::below(folder.path()).source("a.rs".as_ref()).err().unwrap();
    assert!(format!("{error:#}").contains("a.rs: not Rust"), "{error:#}");
}
