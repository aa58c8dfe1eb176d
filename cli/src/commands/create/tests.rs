use std::sync::{Arc, Mutex};

use super::*;
use crate::testing::{FakeAnswer, answering_cluster};

const PROCESS: &str = "/apis/subresources.template.kubevirt.io/v1alpha1/namespaces/golden/virtualmachinetemplates/debian/process";

fn arguments(local: bool) -> CreateArguments {
    CreateArguments {
        pool: Some("farm".to_owned()),
        from_template: "debian".to_owned(),
        template_namespace: Some("golden".to_owned()),
        parameters: vec!["CORES=4".parse().unwrap()],
        replicas: 2,
        local,
        manifest: false,
        dry_run: crate::dry_run::DryRunArguments::default(),
    }
}

fn machine() -> Value {
    json!({ "spec": { "template": { "spec": { "domain": {} } } } })
}

/// A cluster with templates of the older version only, and the requests that it gets.
fn cluster(process: u16) -> (UserClusterClient, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let cluster = answering_cluster(move |target| {
        let path = target.split('?').next().unwrap_or_default();
        seen.lock().unwrap().push(path.to_owned());
        let answer = |object: Value| FakeAnswer { code: 200, body: object.to_string() };
        let unserved =
            FakeAnswer::failure(404, "the server could not find the requested resource", &json!({}));
        match path {
            _ if path.contains("template.kubevirt.io/v1beta1") => unserved,
            PROCESS if process != 200 => {
                let details = json!({ "name": "debian", "kind": "virtualmachinetemplates" });
                FakeAnswer::failure(process, "no", &details)
            }
            PROCESS => answer(json!({ "virtualMachine": machine() })),
            _ if path.ends_with("/virtualmachinetemplates/debian") => answer(json!({
                "apiVersion": "template.kubevirt.io/v1alpha1", "kind": TEMPLATE, "metadata": { "name": "debian" },
                "spec": { "parameters": [{ "name": "CORES" }], "virtualMachine": machine() },
            })),
            _ => answer(json!({
                "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
                "metadata": { "name": "farm" }, "spec": { "replicas": 2 },
            })),
        }
    });
    (cluster, requests)
}

#[tokio::test]
async fn the_server_processes_the_template_in_the_version_that_it_has() {
    let (cluster, requests) = cluster(200);
    create_pool(&cluster, &arguments(false)).await.unwrap();
    let requests = requests.lock().unwrap().clone();
    let pools = "/apis/pool.kubevirt.io/v1beta1/namespaces/team-a/virtualmachinepools";
    assert_eq!(requests[2..], [PROCESS.to_owned(), pools.to_owned()], "{requests:?}");
}

#[tokio::test]
async fn without_the_right_to_process_the_error_names_the_flag() {
    let (cluster, requests) = cluster(403);
    let error = create_pool(&cluster, &arguments(false)).await.unwrap_err().to_string();
    assert!(error.contains("--local"), "{error}");
    assert!(!requests.lock().unwrap().iter().any(|path| path.ends_with("/virtualmachinepools")));
}

#[tokio::test]
async fn local_processing_needs_no_right_to_process() {
    let (cluster, requests) = cluster(403);
    create_pool(&cluster, &arguments(true)).await.unwrap();
    assert!(!requests.lock().unwrap().iter().any(|path| path.ends_with("/process")));
}
