use std::path::Path;
use std::process::Command;

use rstest::rstest;

use super::catalogue::{GoModFile, MODULES};
use super::disk::{MIB, check_free_space};
use super::go::{Go, is_at_least};
use super::monitor::BuildProgress;
use super::stamp::{self, BuildKey};
use crate::workspace::Workspace;

#[test]
fn every_tool_of_a_go_mod_is_built_and_no_other() {
    let workspace = Workspace::locate().unwrap();
    for module in MODULES {
        let pins = GoModFile::read(&workspace.path("hack/tools").join(module.name).join("go.mod")).unwrap();
        let mut built: Vec<&str> = module.tools.iter().map(|tool| tool.package).collect();
        built.sort_unstable();
        assert_eq!(pins.tools(), built, "{}", module.name);
    }
}

#[rstest]
#[case::of_the_demo("demo", "demo")]
#[case::of_the_playground("up", "demo")]
#[case::of_the_benchmark("bench", "control-plane")]
fn make_builds_the_control_plane_and_no_other_go_program(#[case] target: &str, #[case] which: &str) {
    let workspace = Workspace::locate().unwrap();
    let mut make = Command::new("make");
    make.args(["--dry-run", target]).current_dir(workspace.root()).env_remove("MAKEFLAGS");
    let output = make.output().unwrap();
    let plan = String::from_utf8(output.stdout).unwrap();
    let selected: Vec<&str> = plan
        .lines()
        .filter_map(|line| line.split_once("xtask tools"))
        .map(|(_, which)| which.trim())
        .collect();
    assert_eq!(selected, [which], "make {target} runs\n{plan}");
}

#[test]
fn the_version_flags_follow_the_required_version() {
    let pins = GoModFile::parse(
        "module m\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n\nreplace k8s.io/api => k8s.io/api v0.36.3\n".to_owned(),
    )
    .unwrap();
    let flags = MODULES[0].link_flags(&pins).unwrap();
    assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.36.3 "), "{flags}");
    assert!(flags.contains("-X k8s.io/component-base/version.gitMinor=36 "), "{flags}");
    assert!(flags.ends_with("-X k8s.io/client-go/pkg/version.gitVersion=v1.36.3"), "{flags}");
    assert_eq!(pins.version("k8s.io/api"), None, "a replacement is not a requirement");
}

#[rstest]
#[case::the_same("go1.26.0", "1.26.0", true)]
#[case::a_newer_patch("go1.26.8", "1.26.0", true)]
#[case::a_newer_minor_with_two_digits("go1.100", "1.26.0", true)]
#[case::a_newer_major("go2.0", "1.26.0", true)]
#[case::an_older_minor("go1.25.9", "1.26.0", false)]
#[case::one_digit_against_two("go1.9", "1.26.0", false)]
#[case::with_an_experiment("go1.26.1 X:jsonv2", "1.26.0", true)]
fn go_is_new_enough(#[case] version: &str, #[case] wanted: &str, #[case] enough: bool) {
    assert_eq!(is_at_least(version, wanted), enough);
}

#[test]
fn too_little_disk_space_is_one_line() {
    let error =
        check_free_space(100 * MIB, 4096 * MIB, "building control-plane", Path::new("/cache")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not enough disk space: building control-plane needs about 4096 MiB in /cache, 100 MiB are free"
    );
    check_free_space(4096 * MIB, 4096 * MIB, "building control-plane", Path::new("/cache")).unwrap();
}

#[test]
fn output_of_go_is_classified() {
    let mut progress = BuildProgress::default();
    for line in [
        "go: downloading k8s.io/api v0.36.3",
        "golang.org/x/sys/unix",
        "vendor/golang.org/x/net/idna",
        "# k8s.io/api/core/v1",
        "api/core/v1/types.go:12:3: undefined: x",
    ] {
        progress.count_line(line);
    }
    assert_eq!((progress.downloaded, progress.compiled, progress.messages.len()), (1, 2, 2));
}

#[test]
fn a_tool_is_rebuilt_when_anything_it_depends_on_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (mod_file, sum_file) = (folder.path().join("go.mod"), folder.path().join("go.sum"));
    std::fs::write(&mod_file, "module m").unwrap();
    std::fs::write(&sum_file, "sums").unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    let go = Go::stub("go1.26.8");
    let key = BuildKey::of(&mod_file, &sum_file, "-s", &go).unwrap();

    assert!(!stamp::is_current(folder.path(), "etcd", &key), "no program exists");
    stamp::write_build_stamp(folder.path(), "etcd", &key).unwrap();
    assert!(!stamp::is_current(folder.path(), "etcd", &key), "the stamp exists, but the program does not");
    std::fs::write(folder.path().join("bin/etcd"), "").unwrap();
    assert!(stamp::is_current(folder.path(), "etcd", &key));
    assert!(!stamp::is_current(folder.path(), "kubectl", &key), "the stamp belongs to another program");

    assert_ne!(key, BuildKey::of(&mod_file, &sum_file, "-s -w", &go).unwrap(), "other flags");
    assert_ne!(key, BuildKey::of(&mod_file, &sum_file, "-s", &Go::stub("go1.26.9")).unwrap(), "another Go");
    std::fs::write(&sum_file, "other sums").unwrap();
    assert_ne!(key, BuildKey::of(&mod_file, &sum_file, "-s", &go).unwrap(), "another go.sum");
}
