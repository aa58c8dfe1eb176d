//! Complete reviews: the response, and the reads for it.

use serde_json::json;
use std::time::Duration;

use super::*;

#[tokio::test]
async fn a_valid_pool_is_allowed_without_warnings() {
    let world = World::with_objects();
    let response = world.create(&pool()).await;
    assert_eq!(response, json!({ "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": true }));
    let read = [format!("{API}/clustervirtualimages/debian"), format!("{API}/virtualmachineclasses/small")];
    assert_eq!(world.server.requests(), read);
}

#[tokio::test]
async fn a_refusal_is_a_status_with_the_cause() {
    let world = World::with_objects();
    let response =
        world.create(&with(pool(), "/spec/virtualMachineTemplate/spec/cpu/cores", json!(17))).await;
    let field = "spec.virtualMachineTemplate.spec.cpu.cores";
    let cause = "Invalid value: 17: so many cores are spread evenly over 2 sockets; use 16 or 18 (rule W3)";
    assert_eq!(
        response,
        json!({
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "allowed": false,
            "auditAnnotations": { "rule": "W3" },
            "status": {
                "apiVersion": "v1",
                "kind": "Status",
                "metadata": {},
                "status": "Failure",
                "code": 422,
                "reason": "Invalid",
                "message": format!("{field}: {cause}"),
                "details": {
                    "name": "builders",
                    "group": "virtualization.deckhouse.io",
                    "kind": "VirtualMachinePool",
                    "causes": [{ "reason": "FieldValueInvalid", "field": field, "message": cause }],
                },
            },
        })
    );
    assert_eq!(world.server.requests(), [""; 0], "this rule needs no read");
}

#[tokio::test]
async fn a_forbidden_change_is_reported_as_forbidden() {
    let world = World::with_objects();
    let explicit = with(pool(), "/spec/scaleDownPolicy", json!("Explicit"));
    let fewer = with(explicit.clone(), "/spec/replicas", json!(2));
    let response = world.update(&explicit, &fewer).await;
    assert_eq!(
        (&response["status"]["code"], &response["status"]["reason"]),
        (&json!(403), &json!("Forbidden"))
    );
    assert_eq!(response["status"]["details"]["causes"][0]["reason"], "FieldValueForbidden");
    let mut by_handler = review("UPDATE", "", &explicit, &fewer);
    by_handler["request"]["userInfo"]["username"] = json!(HANDLER);
    assert_eq!(world.review(POOL_PATH, &by_handler).await["allowed"], true);
    // A similar name belongs to another user.
    by_handler["request"]["userInfo"]["username"] = json!(format!("{HANDLER} "));
    assert_eq!(world.review(POOL_PATH, &by_handler).await["allowed"], false);
    assert_eq!(world.server.requests(), [""; 0]);
}

#[tokio::test]
async fn warnings_are_part_of_the_response() {
    let world = World::new();
    let response = world.create(&pool()).await;
    assert_eq!(response["allowed"], true);
    let warning = "spec.virtualMachineTemplate.spec.virtualMachineClassName: there is no class \"small\"; machines \
    wait until it exists (rule W5w)";
    let missing = "spec.virtualDiskTemplates[root].spec.dataSource.objectRef.name: there is no ClusterVirtualImage \
                   \"debian\"; machines wait for their disks until it exists (rule D4)";
    assert_eq!(response["warnings"], json!([warning, missing]));
    let response = world.update(&pool(), &with(pool(), "/spec/replicas", json!(0))).await;
    assert!(response["warnings"][0].as_str().unwrap().ends_with("(rule W17)"), "{response}");
}

#[tokio::test]
async fn a_failed_read_is_an_internal_error() {
    let world = World::with_objects();
    world.server.fail("/virtualmachineclasses/small", 403, "the webhook has no permission");
    let response = world.create(&pool()).await;
    assert_eq!(
        response["status"],
        json!({
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "code": 500,
            "reason": "InternalError",
            "message": "reading class \"small\", which spec.virtualMachineTemplate.spec.virtualMachineClassName means: the \
                        webhook has no permission; try again",
        })
    );
    assert_eq!(response["allowed"], false);
}

#[tokio::test]
async fn a_read_without_a_response_times_out() {
    let world = World::with_objects();
    world.server.0.lock().silent = true;
    let review = review("CREATE", "", &Value::Null, &pool());
    let (response, ()) = futures::join!(world.review(POOL_PATH, &review), async {
        world.clock.advance(Duration::from_millis(3_999)).await;
        world.clock.advance(Duration::from_millis(1)).await;
    });
    assert_eq!(response["status"]["code"], 500);
    assert!(response["status"]["message"].as_str().unwrap().contains("no response within 4s"), "{response}");
}

#[tokio::test]
async fn without_a_class_name_the_default_class_is_read() {
    let world = World::with_objects();
    let key = "virtualmachineclass.virtualization.deckhouse.io/is-default-class";
    let policies = json!([{ "cores": { "min": 8, "max": 8 } }]);
    let class = json!({ "metadata": { "name": "big", "annotations": { key: "true" } }, "spec": { "sizingPolicies": policies } });
    world.server.put("/virtualmachineclasses", json!({ "items": [class] }));
    let mut pool = pool();
    pool["spec"]["virtualMachineTemplate"]["spec"].as_object_mut().unwrap().remove("virtualMachineClassName");
    let response = world.create(&pool).await;
    assert_eq!(response["auditAnnotations"]["rule"], "W5", "{response}");
    assert!(response["status"]["message"].as_str().unwrap().contains("class \"big\""));
}

#[tokio::test]
async fn the_volume_of_a_snapshot_is_read() {
    let world = World::with_objects();
    let source =
        json!({ "type": "ObjectRef", "objectRef": { "kind": "VirtualDiskSnapshot", "name": "monday" } });
    let disk = json!({ "name": "root", "spec": { "dataSource": source, "persistentVolumeClaim": { "size": "1Gi" } } });
    let pool = with(pool(), "/spec/virtualDiskTemplates", json!([disk]));
    world.server.put(
        "/namespaces/team-a/virtualdisksnapshots/monday",
        json!({ "status": { "volumeSnapshotName": "volume-7" } }),
    );
    let volume = "/apis/snapshot.storage.k8s.io/v1/namespaces/team-a/volumesnapshots/volume-7".to_owned();
    let restorable = json!({ "status": { "restoreSize": "5Gi" } });
    world.server.0.lock().objects.insert(volume.clone(), (StatusCode::OK, restorable));
    let response = world.create(&pool).await;
    let warning = "spec.virtualDiskTemplates[root].spec.persistentVolumeClaim.size: the disk is smaller than \
                   VirtualDiskSnapshot \"monday\", which needs 5Gi; use at least that, or leave size out (rule D2)";
    assert_eq!(response["warnings"], json!([warning]));
    // Without the volume snapshot, the check is skipped.
    world.server.0.lock().objects.remove(&volume);
    assert_eq!(world.create(&pool).await.get("warnings"), None);
}

#[tokio::test]
async fn an_image_of_the_namespace_is_read() {
    let world = World::with_objects();
    let devices =
        json!([{ "kind": "VirtualImage", "name": "live" }, { "kind": "VirtualDisk", "name": "root" }]);
    let pool = with(pool(), "/spec/virtualMachineTemplate/spec/blockDeviceRefs", devices);
    assert_eq!(world.create(&pool).await["allowed"], true);
    let requests = world.server.requests();
    assert!(requests.contains(&format!("{API}/namespaces/team-a/virtualimages/live")), "{requests:?}");
    world.server.put("/namespaces/team-a/virtualimages/live", json!({ "status": { "phase": "Ready" } }));
    assert_eq!(world.create(&pool).await["auditAnnotations"]["rule"], "W7");
}

#[tokio::test]
async fn the_selected_revision_of_a_pool_is_read() {
    let world = World::with_objects();
    let old = with(pool(), "/metadata/uid", json!("u"));
    let held = with(old.clone(), "/spec/rollout", json!({ "revision": "0123456789abcdef" }));
    let missing = world.update(&old, &held).await;
    assert_eq!(missing["auditAnnotations"]["rule"], "W20", "{missing}");
    let path = "/apis/apps/v1/namespaces/team-a/controllerrevisions/builders-0123456789abcdef".to_owned();
    // The usual name of the revision, and the name that avoids a conflict with a revision of an earlier pool.
    let second = format!("{path}-u");
    assert_eq!(world.server.requests(), [path.clone(), second.clone()]);
    let stored = |owner: &str| {
        json!({
            "metadata": { "ownerReferences": [{
                "apiVersion": held["apiVersion"], "kind": held["kind"], "name": "builders", "uid": owner, "controller": true,
            }] },
            "data": { "spec": { "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }] } },
        })
    };
    let put = |path: &str, owner| {
        world.server.0.lock().objects.insert(path.to_owned(), (StatusCode::OK, stored(owner)));
    };
    put(&path, "u");
    assert_eq!(world.update(&old, &held).await["allowed"], true);
    assert_eq!(world.update(&held, &with(held.clone(), "/spec/replicas", json!(5))).await["allowed"], true);
    assert_eq!(world.server.requests().len(), 2, "an unchanged revision is not read again");
    put(&path, "of-a-predecessor");
    assert_eq!(world.update(&old, &held).await["auditAnnotations"]["rule"], "W20");
    put(&second, "u");
    assert_eq!(world.update(&old, &held).await["allowed"], true);
    // The annotation is checked too, although the spec does not change.
    let annotation = json!({ "vmpool.virtualization.deckhouse.io/rollout-revision": "fedcba9876543210" });
    let by_annotation = with(old.clone(), "/metadata/annotations", annotation);
    assert_eq!(world.update(&old, &by_annotation).await["auditAnnotations"]["rule"], "W20");
}

#[tokio::test]
async fn the_scale_guard_reads_the_current_policy() {
    let world = World::new();
    let path = "/namespaces/team-a/virtualmachinepools/builders";
    world.server.put(path, pool());
    let allowed = world.scale(3, 2).await;
    assert_eq!(allowed["allowed"], true);
    assert_eq!(allowed["auditAnnotations"], json!({ "scaled": "from 3 to 2" }));
    world.server.put(path, with(pool(), "/spec/scaleDownPolicy", json!("Explicit")));
    let response = world.scale(3, 2).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    assert_eq!(response["auditAnnotations"]["scaled"], Value::Null);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("pool \"builders\"")
            && message.contains("virtualmachinepools/builders/scaledownwith")
    );
    // No user is exempt. The API server for removals does not use the scale subresource.
    assert_eq!(world.server.requests().len(), 2);
    assert_eq!(world.scale(2, 3).await["allowed"], true);
    assert_eq!(world.scale(3, 3).await["allowed"], true);
    assert_eq!(world.server.requests(), [""; 0], "a scale-up needs no read");
}

#[tokio::test]
async fn scaling_a_deleted_pool_is_allowed_and_a_failed_read_is_an_error() {
    let world = World::new();
    assert_eq!(world.scale(3, 2).await["allowed"], true, "the pool is deleted");
    world.server.fail("/namespaces/team-a/virtualmachinepools/builders", 503, "busy");
    let response = world.scale(3, 2).await;
    assert_eq!(response["status"]["code"], 500);
    assert_eq!(
        response["status"]["message"],
        "reading the scaleDownPolicy of pool team-a/builders: busy; try again"
    );
    let odd = review(
        "UPDATE",
        "scale",
        &json!({ "spec": { "replicas": 3 } }),
        &json!({ "spec": { "replicas": "2" } }),
    );
    let response = world.review(SCALE_PATH, &odd).await;
    assert_eq!(response["status"]["code"], 400);
    assert!(response["status"]["message"].as_str().unwrap().starts_with("object is no autoscaling/v1 Scale"));
}
