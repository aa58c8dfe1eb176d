use http::StatusCode;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::{ApiServerProcess, ApiServerWorld, RequestFault, TestResponse, request_as_alice};

const GROUP: &str = "/apis/subresources.kubevirt.io/v1";
const EXPAND: &str = "/apis/subresources.kubevirt.io/v1/namespaces/team-a/virtualmachines/m/expand-spec";

async fn get(world: &ApiServerWorld, process: &ApiServerProcess, path: &str) -> TestResponse {
    world.through(process.call(request_as_alice("GET", path, ""))).await.unwrap()
}

async fn resources(world: &ApiServerWorld, process: &ApiServerProcess) -> usize {
    let answer = get(world, process, GROUP).await;
    assert_eq!(
        answer.code,
        StatusCode::OK,
        "an APIService without a document blocks the deletion of namespaces"
    );
    answer.body["resources"].as_array().unwrap().len()
}

fn create_machine(world: &ApiServerWorld) {
    world.server.store(|store| {
        let machine = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": "m", "namespace": "team-a" }, "spec": {},
        });
        store.model().create_now("virtualmachines.kubevirt.io", machine).unwrap();
    });
}

fn install(world: &ApiServerWorld) {
    world.server.store(|store| {
        let installation = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": { "name": "kubevirt", "namespace": "kubevirt" }, "spec": {},
        });
        store.model().create_now("kubevirts.kubevirt.io", installation).unwrap();
    });
}

#[tokio::test]
async fn the_group_of_kubevirt_is_served_while_there_is_no_kubevirt() {
    let world = ApiServerWorld::new(1);
    create_machine(&world);
    let process = world.standalone().await;
    assert_eq!(resources(&world, &process).await, 2);
    assert_eq!(get(&world, &process, EXPAND).await.code, StatusCode::OK);
    // When a KubeVirt appears, then its own API server owns the group.
    install(&world);
    world.clock.advance(PERIOD * 2).await;
    assert_eq!(resources(&world, &process).await, 0);
    assert_eq!(get(&world, &process, EXPAND).await.code, StatusCode::NOT_FOUND);
    // The group of vmpool is served in any case.
    let own =
        "/apis/kubevirt.subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachines/m/expand-spec";
    assert_eq!(get(&world, &process, own).await.code, StatusCode::OK);
    // When it is gone, then the group is served again.
    world.server.store(|store| {
        store
            .model()
            .delete_now("kubevirts.kubevirt.io", "kubevirt", "kubevirt", serde_json::Value::Null)
            .unwrap();
    });
    world.clock.advance(PERIOD * 2).await;
    assert_eq!(get(&world, &process, EXPAND).await.code, StatusCode::OK);
}

#[rstest]
#[case::in_coexist_mode(true)]
#[case::if_the_installations_cannot_be_read(false)]
#[tokio::test]
async fn the_group_of_kubevirt_is_not_served(#[case] coexist: bool) {
    let world = ApiServerWorld::new(1);
    create_machine(&world);
    let process = if coexist {
        world.process(1)
    } else {
        world.server.intercept(|call, _| match &*call.resource {
            "kubevirts" => RequestFault::Refuse(403, "Forbidden"),
            _ => RequestFault::None,
        });
        world.standalone().await
    };
    assert_eq!(get(&world, &process, EXPAND).await.code, StatusCode::NOT_FOUND);
    let group = get(&world, &process, GROUP).await;
    if coexist {
        assert_eq!(group.code, StatusCode::NOT_FOUND);
    } else {
        assert_eq!(group.body["resources"], json!([]));
    }
}

#[test]
fn the_program_is_ready_when_the_installations_were_read_or_cannot_be_read() {
    use vmpool_platforms::removal::{APIS, STANDALONE_APIS};
    let ready = |apis, platform: InstallationState| {
        let served = ServedApis::new(apis, true);
        served.platform.store(platform as u8, Ordering::Relaxed);
        served.check().is_ok()
    };
    assert!(!ready(STANDALONE_APIS, InstallationState::Unread));
    for known in [InstallationState::Unreadable, InstallationState::Absent, InstallationState::Installed] {
        assert!(ready(STANDALONE_APIS, known), "{known:?}");
    }
    assert!(ready(APIS, InstallationState::Unread), "nothing depends on them");
}
