//! A crate outside the workspace can depend on vmpool-api alone.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::{collections::BTreeSet, path::Path, process::Command};

use serde::Deserialize;
use vmpool_api::v1alpha2::VirtualMachinePool;
use vmpool_api::{diskimage, kubevirt};

fn directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/downstream")
}

/// Runs a program of the example and returns its output.
fn output_of(program: &str) -> String {
    // Within the workspace's target directory, so that it is cached and cleaned with the other builds.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("downstream");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "--locked", "--bin", program, "--manifest-path"])
        .arg(directory().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        // Debug information is not needed, and all dependencies are built only for this.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the example failed:\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_crate_outside_the_workspace_builds_a_pool_and_reads_a_status() {
    let text = output_of("downstream");
    let mut documents = serde_json::Deserializer::from_str(&text);
    let pool = VirtualMachinePool::deserialize(&mut documents).unwrap();
    assert_eq!(pool.metadata.name.as_deref(), Some("builders"));
    assert_eq!(pool.spec.replicas, Some(2));
    let names: Vec<&str> = pool.spec.virtual_disk_templates.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names, ["root", "cache"]);
    let lines: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(lines, ["disk root: 10737418240 bytes, Delete", "Available: False (4 of 5 machines run)"]);
}

#[test]
fn a_crate_outside_the_workspace_changes_a_kubevirt_pool_without_loss() {
    let text = output_of("kubevirt");
    let mut documents = serde_json::Deserializer::from_str(&text);
    let pool = kubevirt::VirtualMachinePool::deserialize(&mut documents).unwrap();
    assert_eq!(pool.metadata.name.as_deref(), Some("builders"));
    let policy = pool.spec.scale_in_strategy.unwrap().proactive.unwrap().selection_policy.unwrap();
    assert_eq!(policy.order(), kubevirt::values::SortPolicy::DescendingOrder);
    let lines: Vec<&str> = text.lines().rev().take(2).collect();
    let expected = [
        r#"2 machines with {"newDevices":[{"name":"accelerator"}]}"#,
        "ReplicaPaused: True (SuccessfulPaused)",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_crate_outside_the_workspace_builds_an_image_and_a_wrapper() {
    let text = output_of("diskimage");
    let mut documents = serde_json::Deserializer::from_str(&text);
    let image = diskimage::VmDiskImage::deserialize(&mut documents).unwrap();
    assert_eq!(image.spec.url.as_deref(), Some("https://images.example.com/debian-13.qcow2"));
    let wrapper = diskimage::VirtualMachine::deserialize(&mut documents).unwrap();
    assert_eq!(wrapper.spec.vm_disk_image_ref.name, "debian-13");
    assert!(text.contains(r#""kind": "VMDiskImage""#), "{text}");
}

#[test]
fn it_compiles_no_client_and_no_runtime() {
    let lock = std::fs::read_to_string(directory().join("Cargo.lock")).unwrap();
    for unwanted in ["kube-client", "kube-runtime", "hyper", "rustls", "tokio"] {
        assert!(!lock.contains(&format!("name = \"{unwanted}\"\n")), "{unwanted} is in Cargo.lock");
    }
}

/// Name and version of every package in a lock file.
fn packages(lock: &Path) -> BTreeSet<(String, String)> {
    let text = std::fs::read_to_string(lock).unwrap();
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let lines: Vec<&str> = text.lines().collect();
    lines
        .windows(2)
        .filter_map(|pair| Some((value(pair[0], "name = ")?, value(pair[1], "version = ")?)))
        .collect()
}

#[test]
fn it_needs_nothing_that_the_workspace_has_not_downloaded() {
    let workspace = packages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock"));
    let missing: Vec<(String, String)> = packages(&directory().join("Cargo.lock"))
        .into_iter()
        .filter(|package| package.0 != "downstream" && !workspace.contains(package))
        .collect();
    assert!(missing.is_empty(), "copy Cargo.lock over that of the example and build it: {missing:?}");
}
