//! Names of platforms. Only the crate of a platform names the groups, kinds, labels and phases of a
//! platform. The engine and the programs get them as data.
//!
//! The names of the platforms themselves are not refused: a program registers each of them.
//! `VirtualMachinePool` is not refused either: vmpool serves a resource of this name in a group of its own,
//! and a feature gate has the name.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::registry::platform_packages;
use crate::verify::packages::json_list;
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

/// Files that may contain such names: the phases of pools and the reasons of autoscalers, one of which has
/// the name of a state of machines, and the metrics of disk images, which name the kinds of the objects that
/// refer to them.
const EXEMPT: [&str; 3] = [
    "controller/engine/src/condition.rs",
    "controller/src/metrics/autoscalers.rs",
    "controller/src/metrics/images.rs",
];

/// The modules of what exists on one platform only: disk images, and the commands that read templates of its
/// machines and images of another program on it.
const OF_ONE_PLATFORM: [&str; 5] = [
    "controller/src/images",
    "cli/src/commands/convert",
    "cli/src/commands/convert.rs",
    "cli/src/commands/create",
    "cli/src/commands/create.rs",
];

/// The names that only the platforms may use. The manifest of a platform lists its own, in
/// `package.metadata.platform`.
struct PlatformWords<'a> {
    /// Parts of groups, kinds, plural names and labels, in lower case. Case does not matter.
    names: Vec<&'a str>,
    /// Phases and states of machines and disks, as complete strings.
    phases: Vec<&'a str>,
}

impl<'a> PlatformWords<'a> {
    fn of_manifests(metadata: &'a Value) -> Self {
        let list = |key: &str| {
            let manifests = platform_packages(metadata).map(|package| &package["metadata"]["platform"]);
            manifests.flat_map(|manifest| json_list(manifest, key)).filter_map(Value::as_str).collect()
        };
        Self { names: list("names"), phases: list("phases") }
    }

    /// The names in a file, with the numbers of their lines.
    fn find_in(&self, text: &str) -> Vec<(usize, &'a str)> {
        let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        let mut found = Vec::new();
        for (line, number) in text[..end].lines().zip(1..) {
            let lower = line.to_lowercase();
            let name = self.names.iter().find(|name| lower.contains(*name));
            let phase = || self.phases.iter().find(|phase| line.contains(&format!("\"{phase}\"")));
            found.extend(name.or_else(phase).map(|name| (number, *name)));
        }
        found
    }
}

/// The names of platforms in the sources of the tree.
pub(super) fn find_platform_names(tree: &SourceTree) -> Result<Vec<String>> {
    let words = PlatformWords::of_manifests(&tree.metadata);
    let mut found = platforms_without_names(&tree.metadata);
    for folder in FOLDERS {
        for file in rust_files(&tree.root().join(folder))? {
            let relative = tree.relative_path(&file);
            if OF_ONE_PLATFORM.iter().any(|module| relative.starts_with(module))
                || is_test(relative)
                || EXEMPT.iter().any(|exempt| relative == Path::new(exempt))
            {
                continue;
            }
            for (number, name) in words.find_in(&tree.source(&file)?.text) {
                found.push(format!(
                    "{}:{number} names {name}, which belongs to a platform",
                    relative.display()
                ));
            }
        }
    }
    Ok(found)
}

/// The platforms whose manifests list no names.
fn platforms_without_names(metadata: &Value) -> Vec<String> {
    platform_packages(metadata)
        .filter(|package| json_list(&package["metadata"]["platform"], "names").is_empty())
        .filter_map(|package| package["name"].as_str())
        .map(|name| format!("the manifest of {name} lists no names in package.metadata.platform"))
        .collect()
}

/// Whether a file is only compiled for tests. Tests use the platforms.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| {
        let part = part.as_os_str().to_string_lossy();
        let stem = part.strip_suffix(".rs").unwrap_or(&part);
        matches!(stem, "tests" | "testing" | "simulation") || stem.ends_with("_tests")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// The metadata of a workspace with one platform.
    fn workspace_metadata(manifest: &Value) -> Value {
        let dependencies = json!([{ "name": "vmpool-platform", "kind": null }]);
        let package =
            json!({ "name": "vmpool-a", "dependencies": dependencies, "metadata": { "platform": manifest } });
        json!({ "packages": [package] })
    }

    fn sample_metadata() -> Value {
        let names =
            ["deckhouse", "virtualdisk", "virtualmachines\"", "kubevirt.io", "virtualmachineinstance"];
        workspace_metadata(&json!({ "names": names, "phases": ["Running"] }))
    }

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
        let metadata = sample_metadata();
        let found = PlatformWords::of_manifests(&metadata).find_in(text);
        assert_eq!(!found.is_empty(), expected, "{found:?}");
    }

    #[test]
    fn files_of_tests_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tests/a.rs", "tests.rs", "testing/b.rs", "run/process_tests.rs", "c.rs"] {
            let path = folder.path().join("webhook/src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "const A: &str =\n    \"kubevirt.io\";\n").unwrap();
        }
        let mut tree = SourceTree::below(folder.path());
        tree.metadata = sample_metadata();
        let found = find_platform_names(&tree).unwrap();
        assert_eq!(found, ["webhook/src/c.rs:2 names kubevirt.io, which belongs to a platform"]);
    }

    #[test]
    fn a_platform_lists_its_names() {
        assert_eq!(platforms_without_names(&sample_metadata()), [""; 0]);
        assert_eq!(
            platforms_without_names(&workspace_metadata(&json!({ "phases": ["Running"] }))),
            ["the manifest of vmpool-a lists no names in package.metadata.platform"]
        );
    }
}
