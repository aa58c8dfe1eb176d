//! Copies of instance types and preferences for single machines, in a cluster without KubeVirt's own
//! controller.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::API_VERSION;
use vmpool_installation::programs::ControllerOptions;
use vmpool_test_cluster::control_plane::AuditEntry;

use crate::pins::{small, write};
use crate::world::{INSTALLED, KubeVirtWorld, accounts, run_with_options, text};
use crate::{TestNamespace, with_namespace};

/// Runs a test with a controller that makes copies.
pub(crate) fn with_copies(name: &str, test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>) {
    with_namespace(name, async |place| {
        let _others = INSTALLED.read().await;
        run(place, test).await
    });
}

async fn run(
    place: TestNamespace<'_>,
    test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>,
) -> Result<()> {
    run_by("reference", place, test).await
}

/// As [`run`], with this reference policy.
async fn run_by(
    policy: &str,
    place: TestNamespace<'_>,
    test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>,
) -> Result<()> {
    let mut options = ControllerOptions::new(place.namespace, "one");
    options.extra.push(format!("--instancetype-reference-policy={policy}"));
    options.extra.extend(["--platforms=kubevirt", "--instancetype-mode=Standalone"].map(str::to_owned));
    run_with_options(accounts(place.cluster).await?, place, options, test).await
}

/// A machine that names instance type `small` and preference `linux` of its namespace.
pub(crate) fn machine(name: &str, run_strategy: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualMachine",
        "metadata": { "name": name },
        "spec": {
            "runStrategy": run_strategy,
            "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" },
            "preference": { "name": "linux", "kind": "virtualmachinepreference" },
            "template": { "spec": { "domain": { "devices": {} } } },
        },
    })
}

pub(crate) async fn create(world: &KubeVirtWorld<'_>, machine: &Value) -> Result<()> {
    let path = world.place.path(API_VERSION, "VirtualMachine")?;
    world.place.ask(Method::POST, &path, machine).await.map(drop)
}

/// Waits until the status of a machine names copies of its instance type and its preference, and returns
/// their names.
pub(crate) async fn until_copied(world: &KubeVirtWorld<'_>, name: &str) -> Result<[String; 2]> {
    world
        .until(&format!("{name} has its copies"), async || {
            let machine = world.machines().await?.remove(name).context("the machine is gone")?;
            let copy = |family: &str| {
                text(&machine, &format!("/status/{family}/controllerRevisionRef/name")).to_owned()
            };
            let copies = ["instancetypeRef", "preferenceRef"].map(copy);
            Ok(copies.iter().all(|copy| !copy.is_empty()).then_some(copies))
        })
        .await
}

fn revisions(world: &KubeVirtWorld<'_>) -> String {
    format!("/apis/apps/v1/namespaces/{}/controllerrevisions", world.place.namespace)
}

async fn revision(world: &KubeVirtWorld<'_>, name: &str) -> Result<Option<Value>> {
    let answer = world.place.send(Method::GET, &format!("{}/{name}", revisions(world)), &Value::Null).await?;
    Ok(answer.ok())
}

pub(crate) async fn delete(world: &KubeVirtWorld<'_>, path: &str) -> Result<()> {
    world.place.ask(Method::DELETE, path, &Value::Null).await.map(drop)
}

#[test]
fn a_machine_keeps_the_type_that_it_was_created_with() {
    with_copies("copies", async |world| {
        small(&world, "2048Mi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        // Given a machine that was never started, then it has copies, which it owns.
        create(&world, &machine("db", "Halted")).await?;
        let copies = until_copied(&world, "db").await?;
        let stored = revision(&world, &copies[0]).await?.context("the copy is missing")?;
        ensure!(text(&stored, "/data/spec/memory/guest") == "2048Mi", "the spelling stays: {stored}");
        let db = world.machines().await?.remove("db").context("db")?;
        let owner = &stored["metadata"]["ownerReferences"][0];
        ensure!(owner["uid"] == db["metadata"]["uid"] && owner["controller"] == true, "{stored}");
        world.is_settled().await?;
        // Two copies and one write of the status are all that they cost. The simulator's writes cause
        // conflicts.
        let writes = world.writes()?;
        let accepted = |verb: &str, resource: &str| {
            let is =
                |write: &&AuditEntry| write.verb == verb && write.resource == resource && write.code < 300;
            writes.iter().filter(is).count()
        };
        ensure!(accepted("create", "controllerrevisions") == 2, "{writes:#?}");
        ensure!(accepted("patch", "virtualmachines") == 1, "{writes:#?}");

        // When the type is edited and then deleted, then a started machine uses its copy.
        small(&world, "8Gi").await?;
        let collection =
            world.place.path("instancetype.kubevirt.io/v1beta1", "VirtualMachineInstancetype")?;
        delete(&world, &format!("{collection}/small")).await?;
        world.patch_machine("db", &json!({ "spec": { "runStrategy": "Always" } })).await?;
        world.until_ready(&["db"]).await?;
        ensure!(until_copied(&world, "db").await? == copies);
        let instance = world.instances().await?.remove("db").context("the instance")?;
        let domain = &instance["spec"]["domain"];
        ensure!(domain["memory"]["guest"] == "2048Mi" && domain["cpu"]["sockets"] == 2, "{instance}");
        ensure!(
            instance["metadata"]["annotations"]["kubevirt.io/instancetype-name"] == "small",
            "{instance}"
        );

        // A machine without its type reports that, and gets a copy as soon as the type appears.
        create(&world, &machine("late", "Halted")).await?;
        world
            .until("late reports its missing type", async || {
                let late = world.machines().await?.remove("late").context("late")?;
                let conditions = late["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let is = |condition: &Value| condition["reason"] == "FailedFindInstancetype";
                Ok(conditions.iter().any(is).then_some(()))
            })
            .await?;
        small(&world, "4Gi").await?;
        let late = until_copied(&world, "late").await?;
        ensure!(late[0] != copies[0]);

        // When a user deletes a copy whose type has not changed, then it is restored.
        delete(&world, &format!("{}/{}", revisions(&world), late[0])).await?;
        world.until("the copy is restored", async || revision(&world, &late[0]).await).await?;
        ensure!(until_copied(&world, "late").await? == late);

        // When the machine names another type, then its old copy is deleted.
        write(
            &world,
            "VirtualMachineInstancetype",
            "large",
            json!({ "cpu": { "guest": 8 }, "memory": { "guest": "8Gi" } }),
        )
        .await?;
        world.patch_machine("late", &json!({ "spec": { "instancetype": { "name": "large" } } })).await?;
        world
            .until("the old copy is gone", async || {
                Ok(revision(&world, &late[0]).await?.is_none().then_some(()))
            })
            .await?;
        ensure!(until_copied(&world, "late").await?[0].contains("large"));

        // When a machine is deleted, then its copies are, too.
        delete(&world, &format!("{}/late", world.place.path(API_VERSION, "VirtualMachine")?)).await?;
        world
            .until("the copies of late are gone", async || {
                let list = world.place.ask(Method::GET, &revisions(&world), &Value::Null).await?;
                Ok((list["items"].as_array().map(Vec::len) == Some(2)).then_some(()))
            })
            .await?;
        Ok(())
    });
}

#[test]
fn beside_an_installation_of_kubevirt_no_copies_are_made() {
    with_namespace("copies-refused", async |place| {
        let _alone = INSTALLED.write().await;
        run(place, async |world| {
            small(&world, "2Gi").await?;
            write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
            create(&world, &machine("first", "Halted")).await?;
            until_copied(&world, "first").await?;
            // When a KubeVirt object appears, then the controller stops,
            let collection = world.place.path(API_VERSION, "KubeVirt")?;
            let installation = json!({ "apiVersion": API_VERSION, "kind": "KubeVirt",
                "metadata": { "name": "kubevirt" }, "spec": {} });
            world.place.ask(Method::POST, &collection, &installation).await?;
            world
                .until("the controller logs why it makes no copies", async || {
                    let log = world.controller.log_tail(200);
                    Ok(log.contains("this controller makes none").then_some(()))
                })
                .await?;
            create(&world, &machine("second", "Halted")).await?;
            world.is_settled().await?;
            let second = world.machines().await?.remove("second").context("second")?;
            ensure!(second["status"].get("instancetypeRef").is_none(), "{second}");
            // and when it is gone, the controller continues.
            delete(&world, &format!("{collection}/kubevirt")).await?;
            until_copied(&world, "second").await?;
            Ok(())
        })
        .await
    });
}

#[test]
fn with_the_policy_expand_machines_contain_their_types_and_a_restart_changes_nothing() {
    with_namespace("copies-expand", async |place| {
        let _others = INSTALLED.read().await;
        let namespace = place.namespace;
        run_by("expand", place, async |world| {
            small(&world, "2048Mi").await?;
            write(&world, "VirtualMachinePreference", "linux", json!({ "devices": { "preferredDiskBus": "virtio" } })).await?;
            create(&world, &machine("db", "Always")).await?;
            let db = world
                .until("db contains its type", async || {
                    let db = world.machines().await?.remove("db").context("db")?;
                    Ok(db["spec"].get("instancetype").is_none().then_some(db))
                })
                .await?;
            ensure!(db["spec"].get("preference").is_none() && db["status"].get("instancetypeRef").is_none(), "{db}");
            world.until_ready(&["db"]).await?;
            let instance = world.instances().await?.remove("db").context("the instance")?;
            ensure!(instance["spec"]["domain"]["memory"]["guest"] == "2048Mi", "{instance}");
            ensure!(instance["spec"]["domain"]["cpu"]["sockets"] == 2, "{instance}");
            // The machines of a pool name the copies of their pool.
            world.create("p", &crate::pins::spec(1)).await?;
            world
                .until("p-0 is ready", async || {
                    Ok(world.machines().await?.remove("p-0").filter(|machine| machine["status"]["ready"] == true))
                })
                .await?;
            world.is_settled().await?;
            let pooled = world.machines().await?.remove("p-0").context("p-0")?;
            ensure!(text(&pooled, "/spec/instancetype/revisionName").starts_with("p-small-"), "{pooled}");
            // Nothing keeps the type.
            let path = format!("/apis/instancetype.kubevirt.io/v1beta1/namespaces/{namespace}/virtualmachineinstancetypes/small");
            delete(&world, &path).await?;
            world
                .until("small is gone", async || {
                    Ok(world.place.send(Method::GET, &path, &Value::Null).await?.is_err().then_some(()))
                })
                .await
        })
        .await
    });
}

/// Waits for an event of a machine with this reason.
async fn until_event(world: &KubeVirtWorld<'_>, reason: &str) -> Result<()> {
    world
        .until(&format!("event {reason} exists"), async || {
            let events = world.all("events.k8s.io/v1", "Event").await?;
            let is =
                |event: &Value| event["reason"] == reason && event["regarding"]["kind"] == "VirtualMachine";
            Ok(events.values().any(is).then_some(()))
        })
        .await
}

/// Waits for condition `Failure` of a machine with this reason.
async fn until_failed(world: &KubeVirtWorld<'_>, name: &str, reason: &str) -> Result<()> {
    world
        .until(&format!("{name} reports {reason}"), async || {
            let machine = world.machines().await?.remove(name).context("the machine is gone")?;
            let conditions = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
            Ok(conditions.iter().any(|condition| condition["reason"] == reason).then_some(()))
        })
        .await
}

/// Creates a ControllerRevision that a machine owns, with an object of an instance type, and lets the status
/// of the machine name it.
async fn store(world: &KubeVirtWorld<'_>, machine: &str, labels: &Value, object: &Value) -> Result<String> {
    let owner = world.machines().await?.remove(machine).context("the machine is gone")?;
    let name = format!("{machine}-stored");
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 0, "data": object,
        "metadata": { "name": name, "labels": labels, "ownerReferences": [{
            "apiVersion": API_VERSION, "kind": "VirtualMachine", "name": machine, "uid": owner["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }] },
    });
    world.place.ask(Method::POST, &revisions(world), &revision).await?;
    let mut reference = owner["spec"]["instancetype"].clone();
    reference["controllerRevisionRef"] = json!({ "name": name });
    world
        .place
        .patch(
            API_VERSION,
            "VirtualMachine",
            &format!("{machine}/status"),
            &json!({ "status": { "instancetypeRef": reference } }),
        )
        .await?;
    Ok(name)
}

/// An instance type `small` as this version of the API stores it.
fn stored_small(version: &str, memory: &str) -> Value {
    json!({
        "apiVersion": format!("instancetype.kubevirt.io/{version}"),
        "kind": "VirtualMachineInstancetype",
        "metadata": { "name": "small", "uid": "6b1e1a4e-54b8-4b0f-a1b5-0a6c2f4b7d11", "generation": 3 },
        "spec": { "cpu": { "guest": 4 }, "memory": { "guest": memory } },
    })
}

#[test]
fn an_old_copy_is_replaced_and_a_lost_one_of_a_changed_type_is_reported() {
    with_copies("copies-upgrade", async |world| {
        small(&world, "1Gi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        // Given a machine whose status names a copy without labels, in an old version,
        world.controller.pause()?;
        create(&world, &machine("db", "Halted")).await?;
        let old = store(&world, "db", &json!({}), &stored_small("v1alpha2", "3Gi")).await?;
        // when the controller runs, then a copy with the current version replaces it,
        world.controller.resume()?;
        until_event(&world, "RevisionUpgraded").await?;
        let copies = until_copied(&world, "db").await?;
        ensure!(copies[0] == "db-small-v1beta1-6b1e1a4e-54b8-4b0f-a1b5-0a6c2f4b7d11-3", "{copies:?}");
        let stored = revision(&world, &copies[0]).await?.context("the copy is missing")?;
        ensure!(stored["data"]["apiVersion"] == "instancetype.kubevirt.io/v1beta1", "{stored}");
        let label = &stored["metadata"]["labels"]["instancetype.kubevirt.io/object-version"];
        ensure!(label == "v1beta1", "{stored}");
        world
            .until("the old copy is gone", async || Ok(revision(&world, &old).await?.is_none().then_some(())))
            .await?;
        // and the machine starts with it.
        world.patch_machine("db", &json!({ "spec": { "runStrategy": "Always" } })).await?;
        world.until_ready(&["db"]).await?;
        let instance = world.instances().await?.remove("db").context("the instance")?;
        ensure!(instance["spec"]["domain"]["memory"]["guest"] == "3Gi", "{instance}");

        // When a copy is deleted whose type has changed since, then the condition says that it cannot be
        // restored.
        delete(&world, &format!("{}/{}", revisions(&world), copies[0])).await?;
        until_failed(&world, "db", "FailedFindInstancetype").await
    });
}

#[test]
fn with_the_policy_expand_all_a_machine_with_a_copy_contains_it_and_the_copy_is_deleted() {
    with_namespace("copies-expand-all", async |place| {
        let _others = INSTALLED.read().await;
        run_by("expandAll", place, async |world| {
            small(&world, "1Gi").await?;
            write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
            // Given a machine with a copy that differs from its type,
            world.controller.pause()?;
            create(&world, &machine("db", "Halted")).await?;
            let labels = json!({
                "instancetype.kubevirt.io/object-name": "small",
                "instancetype.kubevirt.io/object-kind": "VirtualMachineInstancetype",
                "instancetype.kubevirt.io/object-version": "v1beta1",
            });
            let copy = store(&world, "db", &labels, &stored_small("v1beta1", "3Gi")).await?;
            // when the controller runs, then the machine contains what the copy has, and the copy is deleted.
            world.controller.resume()?;
            until_event(&world, "Expanded").await?;
            world
                .until("the copy is gone", async || {
                    Ok(revision(&world, &copy).await?.is_none().then_some(()))
                })
                .await?;
            let db = world.machines().await?.remove("db").context("db")?;
            ensure!(
                db["spec"].get("instancetype").is_none() && db["spec"].get("preference").is_none(),
                "{db}"
            );
            ensure!(db["status"].get("instancetypeRef").is_none(), "{db}");
            ensure!(text(&db, "/spec/template/spec/domain/memory/guest") == "3Gi", "{db}");
            world.patch_machine("db", &json!({ "spec": { "runStrategy": "Always" } })).await?;
            world.until_ready(&["db"]).await?;
            let instance = world.instances().await?.remove("db").context("the instance")?;
            ensure!(instance["spec"]["domain"]["cpu"]["sockets"] == 4, "{instance}");
            world.is_settled().await
        })
        .await
    });
}

#[test]
fn a_running_machine_that_names_another_type_keeps_its_copy_until_it_stops() {
    with_copies("copies-changed", async |world| {
        small(&world, "1Gi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        let large = json!({ "cpu": { "guest": 8 }, "memory": { "guest": "8Gi" } });
        write(&world, "VirtualMachineInstancetype", "large", large).await?;
        create(&world, &machine("db", "Always")).await?;
        let copies = until_copied(&world, "db").await?;
        world.until_ready(&["db"]).await?;
        // When the machine names another type while it runs, then its status names a copy of that,
        world.patch_machine("db", &json!({ "spec": { "instancetype": { "name": "large" } } })).await?;
        let new = world
            .until("db has a copy of large", async || {
                let now = until_copied(&world, "db").await?;
                Ok(now[0].contains("large").then_some(now))
            })
            .await?;
        world.is_settled().await?;
        ensure!(revision(&world, &copies[0]).await?.is_some(), "the instance was started with it");
        // and the former copy is deleted when the instance has stopped.
        world.patch_machine("db", &json!({ "spec": { "runStrategy": "Halted" } })).await?;
        world
            .until("the former copy is gone", async || {
                Ok(revision(&world, &copies[0]).await?.is_none().then_some(()))
            })
            .await?;
        world.patch_machine("db", &json!({ "spec": { "runStrategy": "Always" } })).await?;
        world.until_ready(&["db"]).await?;
        ensure!(until_copied(&world, "db").await? == new);
        let instance = world.instances().await?.remove("db").context("the instance")?;
        ensure!(instance["spec"]["domain"]["memory"]["guest"] == "8Gi", "{instance}");
        Ok(())
    });
}

#[test]
fn a_machine_that_does_not_meet_its_preference_is_not_started_and_a_name_is_inferred_from_a_volume() {
    with_copies("copies-inferred", async |world| {
        small(&world, "1Gi").await?;
        write(
            &world,
            "VirtualMachinePreference",
            "linux",
            json!({ "requirements": { "cpu": { "guest": 4 } } }),
        )
        .await?;
        create(&world, &machine("db", "Always")).await?;
        until_failed(&world, "db", "RequirementsNotMet").await?;
        world.is_settled().await?;
        ensure!(world.instances().await?.is_empty(), "the machine must not start");
        write(
            &world,
            "VirtualMachinePreference",
            "linux",
            json!({ "requirements": { "cpu": { "guest": 2 } } }),
        )
        .await?;
        world.until_ready(&["db"]).await?;

        // The labels of a claim name the type. The webhook is not installed, so the controller infers the
        // name.
        let labels = json!({
            "instancetype.kubevirt.io/default-instancetype": "small",
            "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
        });
        let claims = format!("/api/v1/namespaces/{}/persistentvolumeclaims", world.place.namespace);
        for name in ["debian", "ubuntu"] {
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name, "labels": labels },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            });
            world.place.ask(Method::POST, &claims, &claim).await?;
        }
        let mut inferring = machine("web", "Always");
        inferring["spec"]["instancetype"] = json!({ "inferFromVolume": "root" });
        inferring["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "root", "persistentVolumeClaim": { "claimName": "debian" } }]);
        create(&world, &inferring).await?;
        // A volume that names nothing is ignored, and the machine starts without a preference.
        let mut ignoring = inferring.clone();
        ignoring["metadata"]["name"] = json!("ignoring");
        ignoring["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] =
            json!("ubuntu");
        ignoring["spec"]["preference"] =
            json!({ "inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore" });
        create(&world, &ignoring).await?;
        world.until_ready(&["db", "ignoring", "web"]).await?;
        let machines = world.machines().await?;
        let copies = until_copied(&world, "web").await?;
        let stored = revision(&world, &copies[0]).await?.context("the copy is missing")?;
        ensure!(text(&stored, "/data/metadata/name") == "small", "{stored}");
        for name in ["web", "ignoring"] {
            let matcher = &machines[name]["spec"]["instancetype"];
            ensure!(
                *matcher == json!({ "name": "small", "kind": "VirtualMachineInstancetype" }),
                "{matcher}"
            );
        }
        ensure!(machines["ignoring"]["spec"]["preference"].is_null(), "{machines:#?}");
        world.is_settled().await
    });
}
