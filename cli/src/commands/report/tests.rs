use std::sync::{Arc, Mutex};

use anyhow::anyhow;
use serde_json::{Value, json};

use super::*;
use crate::testing::{FakeAnswer, answering_cluster};

/// A file that does not exist.
fn free_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("vmpool-report-{name}-{}.yaml", std::process::id()))
}

#[test]
fn the_name_of_the_file_has_the_pool_and_the_time() {
    let file = |pool| default_file(pool, Timestamp::UNIX_EPOCH).display().to_string();
    assert_eq!(file(Some("web")), "vmpool-report-web-19700101T000000Z.yaml");
    assert_eq!(file(None), "vmpool-report-all-pools-19700101T000000Z.yaml");
}

#[test]
fn the_note_says_what_was_written_and_what_was_not_read() {
    let mut report = IssueReport::default();
    report.add("pools of DVP", &[json!({})]);
    report.add_unreadable(&anyhow!("you may not list pods in namespace vmpool-system"));
    let note = describe_report(&report, Path::new("r.yaml"), 12);
    let plain = anstream::adapter::strip_str(&note).to_string();
    assert!(plain.starts_with(
        "wrote r.yaml (12 bytes): pools of DVP: 1\nnot read: you may not list pods in namespace vmpool-system\n"
    ));
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let file = free_file("twice");
    write_new_file(&file, "a").unwrap();
    let error = write_new_file(&file, "b").unwrap_err();
    let kept = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(error.to_string().contains("creating"), "{error:#}");
    assert_eq!(kept, "a");
}

fn dvp_pool() -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
        "metadata": { "namespace": "team-a", "name": "web", "uid": "u1" },
        "spec": { "virtualMachineTemplate": { "spec": { "provisioning": { "userData": "s3cret" } } } },
    })
}

/// Writes a report of `pool` into a file. Returns the file's text and the requested paths.
async fn report_of(pool: Option<&str>, file: &Path) -> (Result<String>, Vec<String>) {
    let requested = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&requested);
    let cluster = answering_cluster(move |target| {
        requests.lock().unwrap().push(target.to_owned());
        match target {
            _ if target.contains("/pods") => {
                FakeAnswer::failure(403, "forbidden", &json!({ "kind": "pods" }))
            }
            _ if target
                .contains("virtualization.deckhouse.io/v1alpha2/namespaces/team-a/virtualmachinepools") =>
            {
                FakeAnswer::list(&[dvp_pool()])
            }
            _ => FakeAnswer::list(&[]),
        }
    });
    let arguments = ReportArguments {
        pool: pool.map(str::to_owned),
        file: Some(file.to_owned()),
        system_namespace: "vmpool-system".to_owned(),
    };
    let written = write_report(&cluster, None, &arguments).await;
    let text = written.and_then(|()| Ok(std::fs::read_to_string(file)?));
    // The file of a failed report does not exist.
    let _ = std::fs::remove_file(file);
    let paths = requested.lock().unwrap().clone();
    (text, paths)
}

#[tokio::test]
async fn a_report_needs_no_secrets_and_lists_what_it_could_not_read() {
    let (report, paths) = report_of(Some("web"), &free_file("web")).await;
    let report = report.unwrap();
    assert!(report.contains("name: web") && report.contains("section: pools of DVP"), "{report}");
    assert!(!report.contains("s3cret"), "{report}");
    assert!(report.contains("you may not list pods in namespace vmpool-system"), "{report}");
    assert!(!paths.iter().any(|path| path.contains("/secrets")), "{paths:?}");
}

#[tokio::test]
async fn a_report_of_a_missing_pool_is_an_error() {
    let (report, _) = report_of(Some("wen"), &free_file("wen")).await;
    let error = report.unwrap_err().to_string();
    assert!(error.starts_with("pool wen not found in namespace team-a"), "{error}");
}
