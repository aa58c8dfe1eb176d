use super::Outputs;

fn outputs(files: &[(&str, &str)]) -> Outputs {
    let mut outputs = Outputs::default();
    outputs.own("out");
    for (path, content) in files {
        outputs.add((*path).to_owned(), (*content).to_owned());
    }
    outputs
}

#[test]
fn written_files_are_up_to_date() {
    let root = tempfile::tempdir().unwrap();
    let outputs = outputs(&[("out/a.rs", "a"), ("docs/b.md", "b")]);
    assert_eq!(outputs.write(root.path()).unwrap(), ["docs/b.md", "out/a.rs"]);
    assert!(outputs.differing(root.path()).unwrap().is_empty());
    assert!(outputs.write(root.path()).unwrap().is_empty(), "a second run changes nothing");
}

#[test]
fn every_outdated_file_is_listed() {
    let root = tempfile::tempdir().unwrap();
    outputs(&[("out/same", "1"), ("out/edited", "1"), ("out/leftover", "1")]).write(root.path()).unwrap();
    std::fs::create_dir(root.path().join("out/src")).unwrap();
    std::fs::write(root.path().join("out/edited"), "2").unwrap();
    let now = outputs(&[("out/same", "1"), ("out/edited", "1"), ("out/new", "1")]);
    assert_eq!(
        now.differing(root.path()).unwrap(),
        ["out/edited", "out/new (missing)", "out/leftover (no longer generated)"]
    );
    assert_eq!(now.write(root.path()).unwrap(), ["out/edited", "out/new", "out/leftover (removed)"]);
    assert!(now.differing(root.path()).unwrap().is_empty());
}
