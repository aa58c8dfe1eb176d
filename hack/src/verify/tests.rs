use std::fs;
use std::time::Duration;

use rstest::rstest;

use super::crate_boundaries::forbidden_dependencies;
use super::hygiene::{
    ModuleLocation, declared_modules, declared_source_files, has_tests, ignored_test_lines, rust_files,
};
use super::report::VerificationReport;
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

    let found = declared_source_files(std::slice::from_ref(&root)).unwrap();

    assert!(!found.contains(&lost), "{found:?}");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [deeper, deep, a, root, tests]);
}

#[test]
fn nested_packages_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a/b.rs", "a/notes.md", "inner/Cargo.toml", "inner/main.rs", "c.rs"] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    assert_eq!(
        rust_files(folder.path()).unwrap(),
        [folder.path().join("a/b.rs"), folder.path().join("c.rs")]
    );
    assert!(rust_files(&folder.path().join("missing")).unwrap().is_empty());
}

#[test]
fn module_declarations_are_parsed() {
    let text = "mod a;\npub mod b;\npub(in crate::x) mod c;\nmod inline {\n}\n#[path = \"other/d.rs\"]\nmod d;\n#[cfg(test)]\nmod e;\n";
    let named = |name: &str| ModuleLocation::Named(name.to_owned());
    assert_eq!(
        declared_modules(text),
        [named("a"), named("b"), named("c"), ModuleLocation::At("other/d.rs".to_owned()), named("e")]
    );
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

/// The metadata of a workspace of empty crates, with these dependencies of the engine as `(name, kind)`.
fn engine_with(dependencies: &[(&str, Option<&str>)]) -> serde_json::Value {
    let dependencies: Vec<_> =
        dependencies.iter().map(|(name, kind)| serde_json::json!({ "name": name, "kind": kind })).collect();
    let names = [
        "api",
        "feature-gates",
        "instancetype",
        "diskimage",
        "platform",
        "dvp",
        "kubevirt",
        "platforms",
        "runtime",
        "simulator",
        "test-cluster",
        "process-stat",
        "invariants",
        "controller",
        "cli",
        "webhook",
        "apiserver",
    ];
    let mut packages: Vec<_> = names
        .iter()
        .map(|name| serde_json::json!({ "name": format!("vmpool-{name}"), "dependencies": [] }))
        .collect();
    packages.push(serde_json::json!({ "name": "vmpool-engine", "dependencies": dependencies }));
    serde_json::json!({ "packages": packages })
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
