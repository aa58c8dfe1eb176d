//! Volumes that lead to another namespace.

use super::*;

/// A machine or a pool whose instance type is inferred from a DataSource in the namespace `images`.
fn inferring(target: &str, source: &str) -> Value {
    let reference = json!({ "kind": "DataSource", "name": source, "namespace": "images" });
    let spec = json!({
        "runStrategy": "Always",
        "instancetype": { "inferFromVolume": "root" },
        "dataVolumeTemplates": [{ "metadata": { "name": "disk" }, "spec": { "sourceRef": reference } }],
        "template": { "spec": {
            "domain": { "devices": {} }, "volumes": [{ "name": "root", "dataVolume": { "name": "disk" } }],
        } },
    });
    let mut object = if target == "expand-vm-spec" { vm("new") } else { pool() };
    let template = if target == "expand-vm-spec" {
        &mut object["spec"]
    } else {
        &mut object["spec"]["virtualMachineTemplate"]["spec"]
    };
    *template = spec;
    object
}

/// The namespace `images` with a DataSource `debian`, which names the type, and `plain`, which names none.
fn world_with_images() -> ApiServerWorld {
    let world = world();
    world.server.store(|store| {
        for (name, labels) in [
            (
                "debian",
                json!({
                    "instancetype.kubevirt.io/default-instancetype": "small",
                    "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
                }),
            ),
            ("plain", json!({})),
        ] {
            let source = json!({ "snapshot": { "name": format!("{name}-7"), "namespace": "images" } });
            let object = json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
                "metadata": { "name": name, "namespace": "images", "labels": labels },
                "spec": { "source": source },
            });
            store.model().create_now("datasources.cdi.kubevirt.io", object).unwrap();
        }
    });
    world
}

async fn put(world: &ApiServerWorld, process: &ApiServerProcess, target: &str, source: &str) -> TestResponse {
    call(world, process, "PUT", target, &inferring(target, source).to_string()).await
}

#[rstest]
#[tokio::test]
async fn the_answer_does_not_show_whether_an_object_of_another_namespace_exists(
    #[values("expand-vm-spec", "expand-pool-spec")] target: &str,
) {
    let world = world_with_images();
    world.server.deny_where(|attributes: &Value| attributes["namespace"] == "images");
    let process = world.process(1);
    // The right to expand is in the cache afterwards.
    drop(put(&world, &process, target, "first").await);
    let mut answers = Vec::new();
    for source in ["absent", "debian", "plain"] {
        world.server.take_log();
        let answer = put(&world, &process, target, source).await;
        let requests: Vec<_> =
            world.server.take_log().iter().map(|call| (call.verb, call.resource.clone())).collect();
        answers.push((answer.code, answer.body.to_string().replace(source, "NAME"), requests));
    }
    assert!(answers[0].1.contains("does not exist, or machines of namespace team-a may not clone it"));
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[rstest]
#[case::who_reads_it(|attributes: &Value| attributes["namespace"] == "images" && attributes["verb"] != "get")]
#[case::who_clones_what_it_points_to(|attributes: &Value| {
    attributes["namespace"] == "images" && (attributes["subresource"] != "source" || attributes["name"] != "debian-7")
})]
#[tokio::test]
async fn a_user_expands_what_another_namespace_names(
    #[case] denies: fn(&Value) -> bool,
    #[values("expand-vm-spec", "expand-pool-spec")] target: &str,
) {
    let world = world_with_images();
    world.server.deny_where(denies);
    let answer = put(&world, &world.process(1), target, "debian").await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert!(answer.body.to_string().contains("2Gi"), "{}", answer.body);
}
