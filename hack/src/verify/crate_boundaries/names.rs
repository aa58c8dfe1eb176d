//! Names of platforms. Only the crate of a platform names the groups, kinds, labels and phases of a
//! platform. The engine and the programs get them as data.
//!
//! The names of the platforms themselves are not refused: a program registers each of them.
//! `VirtualMachinePool` is not refused either: vmpool serves a resource of this name in a group of its own,
//! and a feature gate has the name.

use std::path::Path;

use anyhow::Result;

use crate::verify::sources::SourceTree;
use crate::workspace::rust_files;

/// The folders without names of platforms.
const FOLDERS: [&str; 8] = [
    "controller/engine/src",
    "controller/kit/src",
    "controller/platform/src",
    "controller/platforms/src",
    "controller/src",
    "webhook/src",
    "apiserver/src",
    "cli/src",
];

/// Files that may contain such names: the phases of pools, one of which has the name of a state of machines,
/// and the metrics of disk images, which name the kinds of the objects that refer to them.
const EXEMPT: [&str; 2] = ["controller/engine/src/condition.rs", "controller/src/metrics/images.rs"];

/// The modules of what exists on one platform only: disk images, and the commands that read templates of its
/// machines and images of another program on it.
const OF_ONE_PLATFORM: [&str; 5] = [
    "controller/src/images",
    "cli/src/commands/convert",
    "cli/src/commands/convert.rs",
    "cli/src/commands/create",
    "cli/src/commands/create.rs",
];

/// Parts of groups, kinds, plural names and labels, in lower case. Case does not matter.
const NAMES: [&str; 14] = [
    "clustervirtualimage",
    "datavolume",
    "deckhouse",
    "kubevirt.io",
    "virt-launcher",
    "virtualdisk",
    "virtualimage",
    "virtualmachineblockdevice",
    "virtualmachineclass",
    "virtualmachineinstance",
    "virtualmachineoperation",
    "virtualmachines\"",
    "virtualmachine\"",
    "volumesnapshot",
];

/// Phases and states of machines and disks, as complete strings.
const PHASES: [&str; 12] = [
    "CrashLoopBackOff",
    "Halted",
    "Migrating",
    "Paused",
    "Pending",
    "Provisioning",
    "Running",
    "Scheduled",
    "Scheduling",
    "Starting",
    "Stopped",
    "Stopping",
];

/// The names of platforms in the sources of the tree.
pub(super) fn find_platform_names(tree: &SourceTree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for file in rust_files(&tree.root().join(folder))? {
            let relative = tree.relative_path(&file);
            if OF_ONE_PLATFORM.iter().any(|module| relative.starts_with(module))
                || is_test(relative)
                || EXEMPT.iter().any(|exempt| relative == Path::new(exempt))
            {
                continue;
            }
            for (number, name) in names(&tree.source(&file)?.text) {
                found.push(format!(
                    "{}:{number} names {name}, which belongs to a platform",
                    relative.display()
                ));
            }
        }
    }
    Ok(found)
}

/// Whether a file is only compiled for tests. Tests use the platforms.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| {
        let part = part.as_os_str().to_string_lossy();
        let stem = part.strip_suffix(".rs").unwrap_or(&part);
        matches!(stem, "tests" | "testing" | "simulation") || stem.ends_with("_tests")
    })
}

/// The names in a file, with the numbers of their lines.
fn names(text: &str) -> Vec<(usize, &'static str)> {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let mut found = Vec::new();
    for (line, number) in text[..end].lines().zip(1..) {
        let lower = line.to_lowercase();
        let name = NAMES.iter().find(|name| lower.contains(*name));
        let phase = || PHASES.iter().find(|phase| line.contains(&format!("\"{phase}\"")));
        found.extend(name.or_else(phase).map(|name| (number, *name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_group(r#"const GROUP: &str = "virtualization.deckhouse.io";"#, true)]
    #[case::a_kind("/// A VirtualDisk.", true)]
    #[case::a_plural_name(r#"let path = path("virtualmachines");"#, true)]
    #[case::a_label(r#"labels["kubevirt.io/created-by"]"#, true)]
    #[case::a_phase(r#"if phase == "Running" {"#, true)]
    #[case::a_word_that_is_no_phase("/// Running machines.", false)]
    #[case::the_name_of_a_platform("use vmpool_platforms::Kubevirt;", false)]
    #[case::the_feature_gate("gates.enabled(Feature::VirtualMachinePool)", false)]
    #[case::a_name_in_tests(
        "use a;\n#[cfg(test)]\nmod tests {\n    const A: &str = \"deckhouse\";\n}\n",
        false
    )]
    fn names_of_platforms_are_found(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(!names(text).is_empty(), expected, "{:?}", names(text));
    }

    #[test]
    fn files_of_tests_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tests/a.rs", "tests.rs", "testing/b.rs", "run/process_tests.rs", "c.rs"] {
            let path = folder.path().join("webhook/src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "const A: &str =\n    \"kubevirt.io\";\n").unwrap();
        }
        let found = find_platform_names(&SourceTree::below(folder.path())).unwrap();
        assert_eq!(found, ["webhook/src/c.rs:2 names kubevirt.io, which belongs to a platform"]);
    }
}
