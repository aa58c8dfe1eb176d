//! Attacks on disk images of another namespace that the webhook does not see: it was off, or a user could
//! write before it was installed. The controller watches all namespaces, with the account and the roles of
//! the chart.
//!
//! The namespace `images` contains the images. Mallory writes objects into `evil`, and `team` has a grant.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::diskimage::API_VERSION;
use vmpool_api::kubevirt::{self, DATA_VOLUME_API_VERSION, POOL_API_VERSION};
use vmpool_e2e::wait::{eventually, eventually_true, throughout};
use vmpool_e2e::world::SETTLE;
use vmpool_installation::installation::{ClusterInstallation, cluster_options, kubevirt_definitions};
use vmpool_installation::programs::{Accounts, Chart, ControllerOptions, ControllerProgram};
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::ControlPlane;

use crate::image_attacks::documented;
use crate::{TestNamespace, run_to_end};

const IMAGE: (&str, &str) = (API_VERSION, "VMDiskImage");
const WRAPPER: (&str, &str) = (API_VERSION, "VirtualMachine");
const MACHINE: (&str, &str) = (kubevirt::API_VERSION, "VirtualMachine");
const POOL: (&str, &str) = (POOL_API_VERSION, "VirtualMachinePool");
const GRANT: (&str, &str) = (API_VERSION, "VMDiskImageGrant");
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/images/roles";
const CLAIMS: &str = "/api/v1/namespaces/images/persistentvolumeclaims";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/images/rolebindings";

fn image(name: &str) -> Value {
    json!({
        "apiVersion": IMAGE.0, "kind": IMAGE.1, "metadata": { "name": name },
        "spec": { "sourceType": "blank", "diskSize": "1Gi" },
    })
}

fn wrapper(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": WRAPPER.0, "kind": WRAPPER.1, "metadata": { "name": name },
        "spec": {
            "vmDiskImageRef": { "name": image, "namespace": "images" },
            "virtualMachineTemplate": { "spec": { "runStrategy": "Always",
                "template": { "spec": { "domain": { "devices": {} } } } } },
        },
    })
}

/// A wrapper that creates its image from this template.
fn creating(name: &str, image: &str, template: &Value) -> Value {
    let mut wrapper = wrapper(name, image);
    wrapper["spec"]["vmDiskImageTemplate"] = template.clone();
    wrapper
}

/// The template of a machine or a pool whose disk has this source.
fn spec(disk: &str, source: &Value) -> Value {
    let mut volume = json!({ "storage": { "resources": { "requests": { "storage": "1Gi" } } } });
    for (field, value) in source.as_object().into_iter().flatten() {
        volume[field] = value.clone();
    }
    json!({
        "runStrategy": "Always",
        "dataVolumeTemplates": [{ "metadata": { "name": disk }, "spec": volume }],
        "template": {
            "metadata": { "labels": { "farm": "evil" } },
            "spec": {
                "domain": { "devices": { "disks": [{ "name": "root" }] } },
                "volumes": [{ "name": "root", "dataVolume": { "name": disk } }],
            },
        },
    })
}

fn data_source() -> Value {
    json!({ "sourceRef": { "kind": "DataSource", "name": "debian", "namespace": "images" } })
}

fn machine(name: &str, source: &Value) -> Value {
    json!({
        "apiVersion": MACHINE.0, "kind": MACHINE.1, "metadata": { "name": name },
        "spec": spec(&format!("{name}-root"), source),
    })
}

/// A pool with one machine, whose disk is a clone of the image.
fn pool() -> Value {
    json!({
        "apiVersion": POOL.0, "kind": POOL.1, "metadata": { "name": "farm" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "farm": "evil" } },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "farm": "evil" } },
                "spec": spec("root", &data_source()),
            },
        },
    })
}

fn grant(from: &str) -> Value {
    grant_for("team", from, "VirtualMachine")
}

fn grant_for(name: &str, from: &str, kind: &str) -> Value {
    json!({
        "apiVersion": GRANT.0, "kind": GRANT.1, "metadata": { "name": name },
        "spec": { "from": [{ "namespace": from, "kinds": [kind] }], "to": [{ "name": "debian" }] },
    })
}

/// What Mallory writes. Nothing of it may count, clone, import or be created.
fn attacks() -> Vec<(&'static str, Value)> {
    let snapshot = json!({ "source": { "snapshot": { "name": "debian", "namespace": "images" } } });
    let claim = json!({ "source": { "pvc": { "name": "debian", "namespace": "images" } } });
    let clone = json!({
        "apiVersion": DATA_VOLUME_API_VERSION, "kind": "DataVolume",
        "metadata": { "name": "copy", "annotations": { "simulator.vmpool.dev/provisioning-delay": "never" } },
        "spec": { "source": snapshot["source"], "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
    });
    let blank = json!({ "sourceType": "blank", "diskSize": "1Gi" });
    let secret = json!({ "sourceType": "http", "url": "https://evil.example/a", "diskSize": "1Gi",
        "secretRef": "credentials" });
    let local = json!({ "sourceType": "http", "url": "http://2130706433/", "diskSize": "1Gi" });
    // It looks as if it were bound, and its machine exists.
    let mut forged = wrapper("forged", "debian");
    forged["status"] = json!({ "phase": "Ready",
        "vmDiskImage": { "namespace": "images", "name": "debian", "uid": "forged", "bound": true } });
    // It looks like the machine of a wrapper of the controller.
    let mut labeled = machine("labeled", &data_source());
    labeled["metadata"]["labels"] = json!({ "vmpool.dev/wrapper-uid": "forged" });
    labeled["metadata"]["annotations"] = json!({ "vmpool.dev/applied-template": "{}" });
    vec![
        ("a wrapper of an image", wrapper("reader", "debian")),
        ("a wrapper of an absent image", wrapper("prober", "absent")),
        ("a wrapper with a forged status", forged),
        ("a wrapper that creates an image in another namespace", creating("planter", "planted", &blank)),
        ("a wrapper that sends a Secret of the owner away", creating("thief", "stolen", &secret)),
        ("a wrapper that lets the importer fetch metadata", creating("fetcher", "metadata", &local)),
        ("a machine of the DataSource", machine("by-source", &data_source())),
        ("a machine of the snapshot", machine("by-snapshot", &snapshot)),
        ("a machine of the claim", machine("by-claim", &claim)),
        ("a machine with the labels of a wrapper", labeled),
        ("a pool of the image", pool()),
        ("a clone of the snapshot", clone),
    ]
}

impl TestNamespace<'_> {
    /// Whether an account may clone the claim or the snapshot of this name in the namespace.
    async fn may_clone(&self, account: &str, name: &str) -> Result<bool> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": { "user": format!("system:serviceaccount:{account}"), "resourceAttributes": {
                "group": "cdi.kubevirt.io", "resource": "datavolumes", "subresource": "source",
                "verb": "create", "namespace": self.namespace, "name": name } },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.ask(Method::POST, path, &review).await?;
        Ok(answer["status"]["allowed"] == true)
    }

    async fn names(&self, api_version: &str, kind: &str) -> Result<Vec<String>> {
        let list = self.ask(Method::GET, &self.path(api_version, kind)?, &Value::Null).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        Ok(items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }
}

fn reason<'v>(wrapper: &'v Value, kind: &str) -> &'v str {
    let conditions = wrapper["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.and_then(|condition| condition["reason"].as_str()).unwrap_or_default()
}

/// Waits until the image has this count of machines, and checks the other ones.
async fn until_counted(images: &TestNamespace<'_>, machines: i64) -> Result<Value> {
    images
        .until_object(IMAGE.0, IMAGE.1, "debian", |image| {
            let status = &image["status"];
            status["phase"] == "Ready"
                && status["referenceCount"] == machines
                && status["poolReferenceCount"] == 0
                && status["cloneReferenceCount"] == 0
        })
        .await
}

async fn installed(
    name: &str,
    test: impl AsyncFnOnce(&ControlPlane, &ControllerProgram) -> Result<()>,
) -> Result<()> {
    let mut options = cluster_options(name);
    options.manifests.extend(kubevirt_definitions());
    options.manifests.push(workspace_root().join("api/crds/diskimage"));
    let cluster = Arc::new(ControlPlane::start(options).await?);
    let values = [
        "platforms.kubevirt.enabled=true",
        "featureGates.DiskImages=true",
        "featureGates.MachineWrapper=true",
    ];
    let chart = Chart::render(&values.map(str::to_owned)).await?;
    let installation = ClusterInstallation::simulating("kubevirt", &chart, cluster.clone()).await?;
    for namespace in ["images", "evil", "team"] {
        cluster.kubectl(&["create", "namespace", namespace]).await?;
    }
    let mut options = ControllerOptions::everywhere("one");
    let gates = "--feature-gates=VirtualMachinePool=true,DiskImages=true,MachineWrapper=true";
    options.extra.extend([gates, "--platforms=kubevirt"].map(str::to_owned));
    let controller = ControllerProgram::start(&cluster, options).await?;
    let tested = test(&cluster, &controller).await;
    tested.with_context(|| controller.log_tail(60))?;
    drop(controller);
    installation.stop().await?;
    drop(cluster);
    Ok(())
}

#[test]
fn without_a_grant_no_object_of_another_namespace_counts_clones_or_creates() {
    run_to_end(installed("image-strangers", async |cluster, _controller| {
        let (images, evil) =
            (TestNamespace { cluster, namespace: "images" }, TestNamespace { cluster, namespace: "evil" });
        images.put(image("debian")).await?;
        until_counted(&images, 0).await?;
        let attacks = attacks();
        ensure!(attacks.len() >= 12);
        documented("| Attack | Result |", attacks.iter().map(|(meaning, _)| *meaning))?;
        for (meaning, object) in &attacks {
            evil.put(object.clone()).await.with_context(|| (*meaning).to_owned())?;
        }
        // Every wrapper says the same: nothing shows whether the image exists.
        let mut messages = Vec::new();
        for name in ["reader", "prober", "forged", "planter", "thief", "fetcher"] {
            let denied = |wrapper: &Value| reason(wrapper, "ImageReady") == "RefNotPermitted";
            let wrapper = evil.until_object(WRAPPER.0, WRAPPER.1, name, denied).await?;
            ensure!(wrapper["status"]["vmDiskImage"].is_null(), "{wrapper}");
            ensure!(wrapper["status"]["phase"] == "Provisioning", "{wrapper}");
            let image = wrapper["spec"]["vmDiskImageRef"]["name"].as_str().unwrap_or_default();
            let message = wrapper["status"]["message"].as_str().unwrap_or_default();
            messages.push(
                message.replace(&format!("/{image} "), "/IMAGE ").replace(&format!(" {image} "), " IMAGE "),
            );
        }
        ensure!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
        for name in ["by-source", "by-snapshot", "labeled"] {
            let refused = |machine: &Value| {
                machine["status"]["conditions"]
                    .to_string()
                    .contains("insufficient permissions in clone source")
            };
            evil.until_object(MACHINE.0, MACHINE.1, name, refused).await?;
        }
        let refused = |pool: &Value| reason(pool, "ImagesReady") == "RefNotPermitted";
        evil.until_object(POOL.0, POOL.1, "farm", refused).await?;
        until_counted(&images, 0).await?;
        ensure!(images.names(IMAGE.0, IMAGE.1).await? == ["debian"]);
        let machines = evil.names(MACHINE.0, MACHINE.1).await?;
        ensure!(machines == ["by-claim", "by-snapshot", "by-source", "labeled"], "{machines:?}");
        let volumes = evil.names(DATA_VOLUME_API_VERSION, "DataVolume").await?;
        ensure!(
            volumes == ["copy"],
            "no machine has a disk, and the clone is that of its creator: {volumes:?}"
        );
        for path in [ROLES, BINDINGS] {
            let list = images.ask(Method::GET, path, &Value::Null).await?;
            ensure!(list["items"] == json!([]), "{list}");
        }
        let labeled = evil.object(MACHINE.0, MACHINE.1, "labeled").await?.context("the machine is gone")?;
        ensure!(labeled["metadata"]["annotations"]["vmpool.dev/applied-template"] == "{}", "{labeled}");
        // No one of them holds the image when its owner deletes it.
        images.delete(IMAGE.0, IMAGE.1, "debian").await?;
        eventually_true("the image is gone", Duration::from_mins(1), async || {
            Ok(images.object(IMAGE.0, IMAGE.1, "debian").await?.is_none())
        })
        .await?;
        Ok(())
    }));
}

#[test]
fn a_grant_permits_to_clone_one_image_and_ends_with_its_removal() {
    run_to_end(installed("image-clone-roles", async |cluster, _controller| {
        let (images, team, evil) = (
            TestNamespace { cluster, namespace: "images" },
            TestNamespace { cluster, namespace: "team" },
            TestNamespace { cluster, namespace: "evil" },
        );
        images.put(image("debian")).await?;
        images.put(image("secret")).await?;
        until_counted(&images, 0).await?;
        images.put(grant("team")).await?;
        // A wrapper, and a machine with an account of its own.
        team.put(wrapper("web", "debian")).await?;
        let mut own = machine("own", &data_source());
        own["spec"]["template"]["spec"]["serviceAccountName"] = json!("builder");
        team.put(own).await?;
        evil.put(machine("evil", &data_source())).await?;
        let ready = |wrapper: &Value| reason(wrapper, "Ready") == "MachineReady";
        team.until_object(WRAPPER.0, WRAPPER.1, "web", ready).await?;
        let runs = |machine: &Value| machine["status"]["ready"] == true;
        let before = team.until_object(MACHINE.0, MACHINE.1, "own", runs).await?;
        until_counted(&images, 2).await?;
        let role = only(&images, ROLES).await?;
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        ensure!(name.starts_with("vmdi-clone-") && name.len() == 21, "{role}");
        ensure!(
            role["rules"]
                == json!([{ "apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes/source"],
                    "resourceNames": ["debian"], "verbs": ["create"] }]),
            "{role}"
        );
        let binding = only(&images, BINDINGS).await?;
        let subjects: Vec<(&str, &str)> = binding["subjects"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|subject| subject["namespace"].as_str().zip(subject["name"].as_str()))
            .collect();
        ensure!(subjects == [("team", "builder"), ("team", "default")], "{binding}");
        // The permission is for this image and these accounts only.
        let may = async |account: &str, image: &str| images.may_clone(account, image).await;
        ensure!(may("team:default", "debian").await? && may("team:builder", "debian").await?);
        for (account, image) in
            [("team:default", "secret"), ("team:other", "debian"), ("evil:default", "debian")]
        {
            ensure!(!may(account, image).await?, "{account} may clone {image}");
        }
        // Machines that name the snapshot or the claim count, too.
        let named = json!({ "name": "debian", "namespace": "images" });
        for (name, source) in [("by-snapshot", "snapshot"), ("by-claim", "pvc")] {
            let mut of = json!({});
            of[source] = named.clone();
            team.put(machine(name, &json!({ "source": of }))).await?;
            until_counted(&images, 3).await.with_context(|| name.to_owned())?;
            team.delete(MACHINE.0, MACHINE.1, name).await?;
            until_counted(&images, 2).await.with_context(|| name.to_owned())?;
        }
        // An account goes with its last reference.
        team.delete(MACHINE.0, MACHINE.1, "own").await?;
        until_counted(&images, 1).await?;
        eventually_true("the account loses its permission", Duration::from_mins(1), async || {
            Ok(!may("team:builder", "debian").await?)
        })
        .await?;
        ensure!(may("team:default", "debian").await?);
        // A widened role is corrected.
        let wide = json!({ "rules": [{ "apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes/source"],
            "verbs": ["create"] }] });
        images.ask(Method::PATCH, &format!("{ROLES}/{name}"), &wide).await?;
        eventually_true("the role is corrected", Duration::from_mins(1), async || {
            Ok(!may("team:default", "secret").await?)
        })
        .await?;
        // Without the grant nothing may be cloned and nothing counts, and the machine runs on.
        images.delete(API_VERSION, "VMDiskImageGrant", "team").await?;
        until_counted(&images, 0).await?;
        eventually_true("the permission is gone", Duration::from_mins(1), async || {
            Ok(!may("team:default", "debian").await?)
        })
        .await?;
        let denied = |wrapper: &Value| reason(wrapper, "ImageReady") == "RefNotPermitted";
        let web = team.until_object(WRAPPER.0, WRAPPER.1, "web", denied).await?;
        ensure!(web["status"]["phase"] == "Ready", "{web}");
        let machine = team.object(MACHINE.0, MACHINE.1, "web").await?.context("the machine is gone")?;
        ensure!(
            machine["status"]["ready"] == true && machine["metadata"]["uid"] != before["metadata"]["uid"]
        );
        Ok(())
    }));
}

/// The controller can give away each right that it has, so a policy of the chart limits what it gives.
#[test]
fn the_account_of_the_controller_gives_only_the_permission_to_clone() {
    run_to_end(installed("image-clone-policy", async |cluster, _controller| {
        let images = TestNamespace { cluster, namespace: "images" };
        let controller = &Accounts::controller_user();
        let (name, further) = ("vmdi-clone-0123456789", "vmdi-clone-9876543210");
        let rules = json!([{ "apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes/source"],
            "resourceNames": ["debian"], "verbs": ["create"] }]);
        let role = |name: &str, rules: &Value| {
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": name }, "rules": rules })
        };
        let binding = |name: &str, kind: &str, role: &str, subject: &Value| {
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": name },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
                "subjects": [subject] })
        };
        let account = json!({ "kind": "ServiceAccount", "namespace": "team", "name": "default" });
        let user = json!({ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory" });
        let machines =
            json!([{ "apiGroups": ["kubevirt.io"], "resources": ["virtualmachines"], "verbs": ["get"] }]);
        let mut all_images = rules.clone();
        all_images[0]["resourceNames"] = json!([]);
        let mut both = rules.clone();
        both.as_array_mut().context("rules")?.push(machines[0].clone());
        // Given a Role of a user,
        images.ask(Method::POST, ROLES, &role("mine", &rules)).await?;
        images.ask(Method::POST, BINDINGS, &binding("mine", "Role", "mine", &account)).await?;
        let (other_role, other_binding) = (format!("{ROLES}/mine"), format!("{BINDINGS}/mine"));
        let label = json!({ "metadata": { "labels": { "seen": "true" } } });
        let refused = [
            (Method::POST, ROLES, role("other", &rules), "with the name vmdi-clone-HASH"),
            (Method::POST, ROLES, role("vmdi-clone-x", &rules), "with the name vmdi-clone-HASH"),
            (Method::POST, ROLES, role(further, &machines), "only the permission to clone"),
            (Method::POST, ROLES, role(further, &all_images), "only the permission to clone"),
            (Method::POST, ROLES, role(further, &both), "only the permission to clone"),
            (Method::POST, ROLES, role(further, &json!([])), "only the permission to clone"),
            (Method::PATCH, &other_role, label.clone(), "with the name vmdi-clone-HASH"),
            (Method::DELETE, &other_role, Value::Null, "with the name vmdi-clone-HASH"),
            (Method::DELETE, &other_binding, Value::Null, "with the name vmdi-clone-HASH"),
            (
                Method::POST,
                BINDINGS,
                binding("other", "Role", name, &account),
                "with the name vmdi-clone-HASH",
            ),
            (
                Method::POST,
                BINDINGS,
                binding(name, "ClusterRole", "vmpool-controller", &account),
                "only its own Roles",
            ),
            (Method::POST, BINDINGS, binding(name, "Role", "mine", &account), "only its own Roles"),
            (Method::POST, BINDINGS, binding(name, "Role", name, &user), "only its own Roles"),
        ];
        // The first requests wait until the API server enforces the policy.
        let probe = format!("{ROLES}?dryRun=All");
        let enforced = async || {
            let answer = images.send_as(controller, Method::POST, &probe, &role("other", &rules)).await?;
            Ok(answer.is_err())
        };
        eventually_true("the policy is in effect", Duration::from_mins(1), enforced).await?;
        let created = images.send_as(controller, Method::POST, ROLES, &role(name, &rules)).await?;
        ensure!(created.is_ok(), "{created:?}");
        let permitted = [
            (Method::POST, BINDINGS.to_owned(), binding(name, "Role", name, &account)),
            (Method::PATCH, format!("{ROLES}/{name}"), label.clone()),
            (Method::PATCH, format!("{BINDINGS}/{name}"), json!({ "subjects": [account, account] })),
        ];
        for (method, path, object, part) in &refused {
            let answer = images.send_as(controller, method.clone(), path, object).await?;
            let status = answer.err().with_context(|| format!("{method} {path} {object} is permitted"))?;
            ensure!(status.code == 403 && status.message.contains(part), "{object}: {}", status.message);
        }
        for (method, path, object) in &permitted {
            let answer = images.send_as(controller, method.clone(), path, object).await?;
            ensure!(answer.is_ok(), "{method} {path} {object}: {answer:?}");
        }
        // A Role that a user has widened: its metadata can change, and its rules only back.
        images.ask(Method::PATCH, &format!("{ROLES}/{name}"), &json!({ "rules": both })).await?;
        for (patch, is_permitted) in [
            (json!({ "metadata": { "labels": { "seen": "twice" } } }), true),
            (json!({ "rules": machines }), false),
            (json!({ "rules": rules }), true),
        ] {
            let path = format!("{ROLES}/{name}");
            let answer = images.send_as(controller, Method::PATCH, &path, &patch).await?;
            ensure!(answer.is_ok() == is_permitted, "{patch}: {answer:?}");
        }
        for path in [BINDINGS, ROLES] {
            let path = format!("{path}/{name}");
            let answer = images.send_as(controller, Method::DELETE, &path, &Value::Null).await?;
            ensure!(answer.is_ok(), "{path}: {answer:?}");
        }
        Ok(())
    }));
}

/// The grant gives all names of the namespace, and `team` may create images with them.
#[test]
fn a_grant_for_images_shares_no_claim_of_its_namespace() {
    run_to_end(installed("image-claims", async |cluster, _controller| {
        let (images, team) =
            (TestNamespace { cluster, namespace: "images" }, TestNamespace { cluster, namespace: "team" });
        // Given a claim of the owner that is no image,
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "vault" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        images.ask(Method::POST, CLAIMS, &claim).await?;
        let create = json!({ "allowed": true, "urlPrefixes": ["https://mirror.example/"] });
        images
            .put(json!({
                "apiVersion": GRANT.0, "kind": GRANT.1, "metadata": { "name": "all" },
                "spec": { "from": [{ "namespace": "team" }], "create": create },
            }))
            .await?;
        // when a wrapper creates an image with its name, and a machine clones it,
        let blank = json!({ "sourceType": "blank", "diskSize": "1Gi" });
        team.put(creating("thief", "vault", &blank)).await?;
        let counts = |image: &Value| {
            reason(image, "Ready") == "NameConflict" && image["status"]["referenceCount"] == 1
        };
        images.until_object(IMAGE.0, IMAGE.1, "vault", counts).await?;
        let source = json!({ "source": { "pvc": { "name": "vault", "namespace": "images" } } });
        team.put(machine("direct", &source)).await?;
        let both = |image: &Value| image["status"]["referenceCount"] == 2;
        images.until_object(IMAGE.0, IMAGE.1, "vault", both).await?;
        // then no account may clone it.
        let refused = |machine: &Value| {
            machine["status"]["conditions"].to_string().contains("insufficient permissions in clone source")
        };
        team.until_object(MACHINE.0, MACHINE.1, "direct", refused).await?;
        ensure!(!images.may_clone("team:default", "vault").await?);
        for path in [ROLES, BINDINGS] {
            let list = images.ask(Method::GET, path, &Value::Null).await?;
            ensure!(list["items"] == json!([]), "{list}");
        }
        // When the owner deletes the claim, then the image is imported, and may be cloned.
        images.ask(Method::DELETE, &format!("{CLAIMS}/vault"), &Value::Null).await?;
        let runs = |machine: &Value| machine["status"]["ready"] == true;
        team.until_object(MACHINE.0, MACHINE.1, "thief", runs).await?;
        ensure!(images.may_clone("team:default", "vault").await?);
        Ok(())
    }));
}

#[test]
fn an_image_whose_finalizer_its_owner_removes_leaves_no_permission_for_the_next_object_of_its_name() {
    run_to_end(installed("image-finalizer", async |cluster, _controller| {
        let (images, team) =
            (TestNamespace { cluster, namespace: "images" }, TestNamespace { cluster, namespace: "team" });
        images.put(image("debian")).await?;
        until_counted(&images, 0).await?;
        images.put(grant("team")).await?;
        team.put(wrapper("web", "debian")).await?;
        until_counted(&images, 1).await?;
        let ready = |wrapper: &Value| reason(wrapper, "Ready") == "MachineReady";
        team.until_object(WRAPPER.0, WRAPPER.1, "web", ready).await?;
        ensure!(images.may_clone("team:default", "debian").await?);
        // Given a deletion that waits for the machine, when the owner removes the finalizer,
        let path = format!("{}/debian", images.path(IMAGE.0, IMAGE.1)?);
        images.ask(Method::DELETE, &path, &Value::Null).await?;
        until_held(&images, "team/web").await?;
        images.ask(Method::PATCH, &path, &json!({ "metadata": { "finalizers": null } })).await?;
        ensure!(images.object(IMAGE.0, IMAGE.1, "debian").await?.is_none());
        // then no permission is left, which would be one for the next object of that name.
        for path in [BINDINGS, ROLES] {
            let none = async || {
                let list = images.ask(Method::GET, path, &Value::Null).await?;
                Ok(if list["items"] == json!([]) { Ok(()) } else { Err(list.to_string()) })
            };
            eventually("no permission is left", Duration::from_mins(1), none).await?;
        }
        ensure!(!images.may_clone("team:default", "debian").await?);
        Ok(())
    }));
}

#[test]
fn a_grant_to_refer_creates_nothing_and_one_to_create_only_what_it_permits() {
    run_to_end(installed("image-creators", async |cluster, _controller| {
        let (images, team) =
            (TestNamespace { cluster, namespace: "images" }, TestNamespace { cluster, namespace: "team" });
        let to = |name: &str, image: &str, create: Value| {
            json!({
                "apiVersion": GRANT.0, "kind": GRANT.1, "metadata": { "name": name },
                "spec": { "from": [{ "namespace": "team" }], "to": [{ "name": image }], "create": create },
            })
        };
        let mut limits = json!({ "allowed": true, "urlPrefixes": ["https://mirror.example/public"],
            "maxDiskSize": "5Gi" });
        images.put(to("refer", "unborn", json!({ "allowed": false }))).await?;
        images.put(to("create", "new", limits.clone())).await?;
        let template = |change: Value| {
            let mut template = json!({ "sourceType": "http", "url": "https://mirror.example/public/a",
                "diskSize": "5Gi" });
            for (field, value) in change.as_object().into_iter().flatten() {
                template[field] = value.clone();
            }
            template
        };
        // No webhook is installed: the controller answers.
        let secret = template(json!({ "secretRef": "credentials" }));
        let refused = [
            ("planter", "unborn", json!({ "sourceType": "blank", "diskSize": "1Gi" })),
            ("thief", "new", secret.clone()),
            ("visitor", "new", template(json!({ "url": "https://evil.example/public/a" }))),
            ("fetcher", "new", template(json!({ "url": "http://2130706433/" }))),
            ("spender", "new", template(json!({ "storageClass": "gold" }))),
            ("hoarder", "new", template(json!({ "diskSize": "6Gi" }))),
        ];
        for (name, image, template) in &refused {
            team.put(creating(name, image, template)).await?;
        }
        let denied = |wrapper: &Value| reason(wrapper, "ImageReady") == "CreateNotPermitted";
        for (name, ..) in &refused {
            let wrapper = team.until_object(WRAPPER.0, WRAPPER.1, name, denied).await?;
            ensure!(wrapper["status"]["phase"] == "Provisioning", "{wrapper}");
            ensure!(wrapper["status"]["vmDiskImage"].is_null(), "{wrapper}");
        }
        throughout("no image and no machine is created", SETTLE, async || {
            let names =
                [images.names(IMAGE.0, IMAGE.1).await?, team.names(MACHINE.0, MACHINE.1).await?].concat();
            Ok(if names.is_empty() { Ok(()) } else { Err(format!("{names:?}")) })
        })
        .await?;
        // When the grant permits the Secret, then only that wrapper creates its image.
        limits["secretRefs"] = json!(["credentials"]);
        images.patch(GRANT.0, GRANT.1, "create", &json!({ "spec": { "create": limits } })).await?;
        let created = images.until_object(IMAGE.0, IMAGE.1, "new", |_| true).await?;
        for (field, value) in secret.as_object().into_iter().flatten() {
            ensure!(created["spec"][field] == *value, "{created}");
        }
        ensure!(images.names(IMAGE.0, IMAGE.1).await? == ["new"]);
        Ok(())
    }));
}

#[test]
fn a_pool_of_another_namespace_waits_for_a_grant_and_keeps_its_machines_without_it() {
    run_to_end(installed("image-pool-grant", async |cluster, _controller| {
        let (images, team) =
            (TestNamespace { cluster, namespace: "images" }, TestNamespace { cluster, namespace: "team" });
        images.put(image("debian")).await?;
        until_counted(&images, 0).await?;
        // Given a grant for machines only, then the pool creates none.
        images.put(grant("team")).await?;
        team.put(pool()).await?;
        let refused = |pool: &Value| {
            reason(pool, "ImagesReady") == "RefNotPermitted" && pool["status"]["replicas"] != 2
        };
        team.until_object(POOL.0, POOL.1, "farm", refused).await?;
        ensure!(team.names(MACHINE.0, MACHINE.1).await?.is_empty());
        // When one permits pools, then its machine clones the image.
        images.put(grant_for("pools", "team", "VirtualMachinePool")).await?;
        let ready =
            |pool: &Value| pool["status"]["readyReplicas"] == 1 && reason(pool, "ImagesReady").is_empty();
        team.until_object(POOL.0, POOL.1, "farm", ready).await?;
        images
            .until_object(IMAGE.0, IMAGE.1, "debian", |image| image["status"]["poolReferenceCount"] == 1)
            .await?;
        // When that is deleted, then the machine runs on, and no other one is created.
        images.delete(GRANT.0, GRANT.1, "pools").await?;
        team.until_object(POOL.0, POOL.1, "farm", refused).await?;
        images
            .until_object(IMAGE.0, IMAGE.1, "debian", |image| image["status"]["poolReferenceCount"] == 0)
            .await?;
        team.patch(POOL.0, POOL.1, "farm", &json!({ "spec": { "replicas": 2 } })).await?;
        throughout("no machine is created", SETTLE, async || {
            let names = team.names(MACHINE.0, MACHINE.1).await?;
            Ok(if names == ["farm-0"] { Ok(()) } else { Err(format!("{names:?}")) })
        })
        .await?;
        team.until_object(POOL.0, POOL.1, "farm", refused).await.map(drop)?;
        Ok(())
    }));
}

/// The controller of namespaces tries again later and later, up to a minute after its last attempt.
const NAMESPACE_DEADLINE: Duration = Duration::from_mins(3);

impl TestNamespace<'_> {
    /// Waits until the namespace is gone.
    async fn until_namespace_is_gone(&self, controller: &ControllerProgram) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        eventually("the namespace is gone", NAMESPACE_DEADLINE, async || {
            let answer = self.send(Method::GET, &path, &Value::Null).await?;
            Ok(answer.map_or(Ok(()), |left| Err(format!("{left:#}\n{}", controller.log_tail(40)))))
        })
        .await
    }
}

/// Waits until the deletion of the image waits for the object of this name.
async fn until_held(images: &TestNamespace<'_>, by: &str) -> Result<Value> {
    let blocked = |image: &Value| {
        reason(image, "DeletionBlocked") == "InUse" && image["status"]["message"].to_string().contains(by)
    };
    images.until_object(IMAGE.0, IMAGE.1, "debian", blocked).await
}

#[test]
fn the_deletion_of_a_namespace_waits_for_permitted_references_and_ends_with_them() {
    run_to_end(installed("image-namespace", async |cluster, controller| {
        let (images, team, evil) = (
            TestNamespace { cluster, namespace: "images" },
            TestNamespace { cluster, namespace: "team" },
            TestNamespace { cluster, namespace: "evil" },
        );
        images.put(image("debian")).await?;
        images.put(image("unused")).await?;
        until_counted(&images, 0).await?;
        images.put(grant("team")).await?;
        let protected = |grant: &Value| {
            grant["metadata"]["finalizers"] == json!(["vmpool.dev/vmdiskimagegrant-protection"])
        };
        images.until_object(GRANT.0, GRANT.1, "team", protected).await?;
        team.put(wrapper("web", "debian")).await?;
        evil.put(machine("evil", &data_source())).await?;
        let ready = |wrapper: &Value| reason(wrapper, "Ready") == "MachineReady";
        team.until_object(WRAPPER.0, WRAPPER.1, "web", ready).await?;
        // Given a machine of the namespace that its finalizer keeps,
        let source = json!({ "sourceRef": { "kind": "DataSource", "name": "debian" } });
        let mut local = machine("local", &source);
        local["metadata"]["finalizers"] = json!(["example.com/keep"]);
        images.put(local).await?;
        until_counted(&images, 2).await?;
        // when the namespace is deleted, then its image waits for both references, and another image does not
        // wait.
        cluster.kubectl(&["delete", "namespace", "images", "--wait=false"]).await?;
        until_held(&images, "images/local").await?;
        until_held(&images, "team/web").await?;
        eventually_true("the unused image is gone", NAMESPACE_DEADLINE, async || {
            Ok(images.object(IMAGE.0, IMAGE.1, "unused").await?.is_none())
        })
        .await?;
        images.patch(MACHINE.0, MACHINE.1, "local", &json!({ "metadata": { "finalizers": null } })).await?;
        // The reference that a grant permits holds image, grant and namespace. The one of evil is not even
        // named.
        let held = images
            .until_object(IMAGE.0, IMAGE.1, "debian", |image| image["status"]["referenceCount"] == 1)
            .await?;
        ensure!(!held["status"].to_string().contains("evil"), "{held}");
        let path = "/api/v1/namespaces/images";
        let says_so = |namespace: &Value| {
            namespace["status"]["conditions"].to_string().contains("vmdiskimages.vmpool.dev has 1 resource")
        };
        eventually("the namespace names what holds it", NAMESPACE_DEADLINE, async || {
            let namespace = images.ask(Method::GET, path, &Value::Null).await?;
            Ok(if says_so(&namespace) { Ok(()) } else { Err(namespace.to_string()) })
        })
        .await?;
        // The machine runs on. Whether the image counts as ready depends on how much of its data is deleted
        // by now.
        let runs = |wrapper: &Value| {
            wrapper["status"]["phase"] == "Ready" && reason(wrapper, "VirtualMachineReady") == "MachineReady"
        };
        team.until_object(WRAPPER.0, WRAPPER.1, "web", runs).await?;
        // A new reference is refused.
        team.put(wrapper("late", "debian")).await?;
        let terminating = |wrapper: &Value| reason(wrapper, "ImageReady") == "ImageTerminating";
        team.until_object(WRAPPER.0, WRAPPER.1, "late", terminating).await?;
        // Kubernetes has deleted the data, so this is a notice and no rescue.
        ensure!(images.object(DATA_VOLUME_API_VERSION, "DataVolume", "debian").await?.is_none());
        // When the reference is gone, then the deletion ends.
        ensure!(images.object(GRANT.0, GRANT.1, "team").await?.is_some());
        team.delete(WRAPPER.0, WRAPPER.1, "web").await?;
        images.until_namespace_is_gone(controller).await
    }));
}

#[test]
fn a_released_image_and_a_revoked_grant_hold_no_namespace() {
    run_to_end(installed("image-namespace-released", async |cluster, controller| {
        let (images, team) =
            (TestNamespace { cluster, namespace: "images" }, TestNamespace { cluster, namespace: "team" });
        images.put(image("debian")).await?;
        until_counted(&images, 0).await?;
        images.put(grant("team")).await?;
        team.put(wrapper("web", "debian")).await?;
        let ready = |wrapper: &Value| reason(wrapper, "Ready") == "MachineReady";
        team.until_object(WRAPPER.0, WRAPPER.1, "web", ready).await?;
        until_counted(&images, 1).await?;
        // Given a namespace that a reference holds, when a user releases the image, then the namespace ends.
        cluster.kubectl(&["delete", "namespace", "images", "--wait=false"]).await?;
        until_held(&images, "team/web").await?;
        let release = json!({ "metadata": { "annotations": { "vmpool.dev/force-release": "true" } } });
        images.patch(IMAGE.0, IMAGE.1, "debian", &release).await?;
        images.until_namespace_is_gone(controller).await?;
        let machine = team.object(MACHINE.0, MACHINE.1, "web").await?.context("the machine is gone")?;
        ensure!(machine["status"]["ready"] == true, "{machine}");
        // Given another one whose grant a user deleted before, then references of others do not hold it.
        cluster.kubectl(&["create", "namespace", "images"]).await?;
        images.put(image("debian")).await?;
        until_counted(&images, 0).await?;
        images.put(grant("team")).await?;
        until_counted(&images, 1).await?;
        images.delete(GRANT.0, GRANT.1, "team").await?;
        until_counted(&images, 0).await?;
        eventually_true("the grant is gone", NAMESPACE_DEADLINE, async || {
            Ok(images.object(GRANT.0, GRANT.1, "team").await?.is_none())
        })
        .await?;
        cluster.kubectl(&["delete", "namespace", "images", "--wait=false"]).await?;
        images.until_namespace_is_gone(controller).await
    }));
}

/// The only object of a list, as soon as there is one.
async fn only(place: &TestNamespace<'_>, path: &str) -> Result<Value> {
    eventually("there is one object", NAMESPACE_DEADLINE, async || {
        let list = place.ask(Method::GET, path, &Value::Null).await?;
        Ok(match list["items"].as_array().map(Vec::as_slice) {
            Some([only]) => Ok(only.clone()),
            _ => Err(list.to_string()),
        })
    })
    .await
}
