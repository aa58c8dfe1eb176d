//! Pools and machines whose volume leads to another namespace.

use super::*;

impl LeaderWorld {
    /// The namespace `images` with a DataSource `debian` that names the type, and an API server that answers
    /// reviews.
    fn create_images(&self, is_permitted: bool) {
        let labels = json!({
            "instancetype.kubevirt.io/default-instancetype": "small",
            "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
        });
        self.server.create(
            "datasources.cdi.kubevirt.io",
            json!({
                "metadata": { "name": "debian", "namespace": "images", "labels": labels },
                "spec": { "source": { "pvc": { "name": "debian-7", "namespace": "images" } } },
            }),
        );
        self.server.intercept(move |call: &Call| {
            if call.resource != "subjectaccessreviews" {
                return Fate::Serve;
            }
            let spec = &call.body["spec"];
            let of = &spec["resourceAttributes"];
            assert_eq!(spec["user"], json!(format!("system:serviceaccount:{NAMESPACE}:builder")));
            let asked =
                ["verb", "group", "resource", "subresource", "namespace"].map(|field| of[field].clone());
            assert_eq!(
                asked,
                ["create", "cdi.kubevirt.io", "datavolumes", "source", "images"].map(|text| json!(text))
            );
            Fate::Respond(201, json!({ "status": { "allowed": is_permitted && of["name"] == "debian-7" } }))
        });
    }

    /// A pool whose instance type is inferred from this DataSource of the namespace `images`.
    fn create_inferring_pool(&self, source: &str) {
        self.create_pool("web");
        self.server.edit(POOLS, "web", |pool| {
            pool["spec"]["replicas"] = json!(1);
            let spec = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
            spec["preference"] = Value::Null;
            infer(spec, source);
        });
    }
}

/// Makes a machine infer its instance type from a DataSource of the namespace `images`.
fn infer(spec: &mut Value, source: &str) {
    let reference = json!({ "kind": "DataSource", "name": source, "namespace": "images" });
    spec["instancetype"] = json!({ "inferFromVolume": "root" });
    spec["dataVolumeTemplates"] =
        json!([{ "metadata": { "name": "disk" }, "spec": { "storage": {}, "sourceRef": reference } }]);
    spec["template"]["spec"]["serviceAccountName"] = json!("builder");
    spec["template"]["spec"]["volumes"] = json!([{ "name": "root", "dataVolume": { "name": "disk" } }]);
}

#[tokio::test]
async fn a_condition_does_not_show_whether_an_object_of_another_namespace_exists() {
    let mut messages = Vec::new();
    for source in ["absent", "debian"] {
        let world = world(None).await;
        world.create_images(false);
        world.create_inferring_pool(source);
        world.calm().await;
        assert_eq!(world.server.all(MACHINES).len(), 0);
        let pool = world.server.get(POOLS, "web").unwrap();
        let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let resolved =
            conditions.into_iter().find(|condition| condition["type"] == "TemplateResolved").unwrap();
        assert_eq!(resolved["reason"], "InferenceFailed");
        messages.push(resolved["message"].as_str().unwrap().replace(source, "NAME"));
    }
    assert!(messages[0].contains("does not exist, or machines of namespace"), "{messages:?}");
    assert_eq!(messages[0], messages[1]);
}

#[tokio::test]
async fn a_pool_uses_an_object_of_another_namespace_that_its_account_may_clone() {
    let world = world(None).await;
    world.create_images(true);
    world.create_inferring_pool("debian");
    world.calm().await;
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(machine["spec"]["instancetype"]["name"], "small");
    // A settled pool asks nothing.
    world.server.take_log();
    world.advance(120 * SECOND).await;
    let reviews =
        world.server.take_log().iter().filter(|call| call.resource == "subjectaccessreviews").count();
    assert_eq!(reviews, 0);
}
