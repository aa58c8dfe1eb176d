use std::path::Path;

use rstest::rstest;
use serde_yaml_ng::Value;
use tempfile::TempDir;

use super::Fragments;

/// A source directory with these files, given as name and content.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("fragments")).unwrap();
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn expand(dir: &Path) -> anyhow::Result<Value> {
    Fragments::new(dir).expand_file(&dir.join("crd.yaml"))
}

#[test]
fn a_fragment_replaces_its_reference_and_keys_beside_it_take_precedence() {
    let dir = directory(&[
        (
            "crd.yaml",
            "size: {$ref: fragments/size.yaml, description: Of the disk.}\nrules: {$ref: fragments/list.yaml}\n",
        ),
        ("fragments/size.yaml", "$ref: fragments/base.yaml\ndescription: Some size.\n"),
        ("fragments/base.yaml", "type: string\ndescription: Anything.\n"),
        ("fragments/list.yaml", "- one\n- two\n"),
    ]);
    let expected: Value =
        serde_yaml_ng::from_str("size: {type: string, description: Of the disk.}\nrules: [one, two]\n")
            .unwrap();
    assert_eq!(expand(dir.path()).unwrap(), expected);
}

#[rstest]
#[case::to_itself("$ref: fragments/a.yaml", "$ref: fragments/a.yaml", "refers to itself")]
#[case::with_keys_beside_a_list("$ref: fragments/a.yaml\ntype: string", "[1, 2]", "is not a mapping")]
#[case::that_is_not_a_string("$ref: 1", "{}", "must be the name of a fragment")]
#[case::to_a_missing_file("$ref: fragments/b.yaml", "{}", "reading")]
fn refuses_a_reference(#[case] crd: &str, #[case] fragment: &str, #[case] message: &str) {
    let dir = directory(&[("crd.yaml", crd), ("fragments/a.yaml", fragment)]);
    let error = format!("{:#}", expand(dir.path()).unwrap_err());
    assert!(error.contains(message), "{error}");
}

#[test]
fn unused_fragments_are_reported() {
    let dir = directory(&[
        ("crd.yaml", "$ref: fragments/used.yaml"),
        ("fragments/used.yaml", "{}"),
        ("fragments/unused.yaml", "{}"),
    ]);
    let mut fragments = Fragments::new(dir.path());
    fragments.expand_file(&dir.path().join("crd.yaml")).unwrap();
    assert_eq!(fragments.unused().unwrap(), ["fragments/unused.yaml"]);
}
