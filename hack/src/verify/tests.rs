use std::fs;
use std::time::Duration;

use super::hygiene::{Module, declared, ignored, modules};
use super::report::Report;
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

    let found = declared(std::slice::from_ref(&root)).unwrap();

    assert!(!found.contains(&lost), "{found:?}");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [deeper, deep, a, root, tests]);
}

#[test]
fn modules_are_read_as_rustfmt_writes_them() {
    let text = "mod a;\npub mod b;\npub(in crate::x) mod c;\nmod inline {\n}\n#[path = \"other/d.rs\"]\nmod d;\n#[cfg(test)]\nmod e;\n";
    let named = |name: &str| Module::Named(name.to_owned());
    assert_eq!(
        modules(text),
        [named("a"), named("b"), named("c"), Module::At("other/d.rs".to_owned()), named("e")]
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
    assert_eq!(ignored(&text.join("\n")), [2, 3, 5]);
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
fn all_failures_are_reported_and_what_could_not_run_is_one() {
    let mut report = Report::default();
    report.succeeded(&STEPS[0], Duration::ZERO);
    report.failed(&STEPS[1], Duration::ZERO, &anyhow::anyhow!("lost.rs"));
    report.skipped(&STEPS[2], "needs hygiene");
    report.left_out(&STEPS[3], "does not apply");

    assert_eq!(report.failures().len(), 2);
    assert!(report.failures()[0].ends_with(STEPS[1].command), "{:?}", report.failures());
    assert!(report.passed(STEPS[0].name) && report.passed(STEPS[3].name));
    assert!(!report.passed(STEPS[1].name) && !report.passed(STEPS[2].name));
}
