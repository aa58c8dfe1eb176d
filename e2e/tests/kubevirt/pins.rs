//! Pools whose template names an instance type and a preference.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::instancetype::API_VERSION;

use crate::Unknown;
use crate::world::{KubeVirtWorld, alone, condition, text, with_world};

/// The spec of a pool that names instance type `small` and preference `linux` of its namespace.
/// Its template leaves the domain to the controller.
pub(crate) fn spec(replicas: usize) -> Value {
    json!({
        "replicas": replicas,
        "selector": { "matchLabels": { "farm": "render" } },
        "virtualMachineTemplate": {
            "metadata": { "labels": { "farm": "render" } },
            "spec": {
                "runStrategy": "Always",
                "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" },
                "preference": { "name": "linux", "kind": "virtualmachinepreference" },
                "template": {
                    "metadata": { "labels": { "farm": "render" } },
                    "spec": {},
                },
            },
        },
    })
}

/// Creates or replaces an instance type or a preference.
pub(crate) async fn write(world: &KubeVirtWorld<'_>, kind: &str, name: &str, spec: Value) -> Result<Value> {
    let metadata = json!({ "name": name });
    let object = json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec });
    let written = world.place.write(&object, Unknown::Refused).await?;
    written.map_err(|status| anyhow::anyhow!("{}", status.message))
}

/// Creates or replaces instance type `small`.
pub(crate) async fn small(world: &KubeVirtWorld<'_>, memory: &str) -> Result<Value> {
    let spec = json!({ "cpu": { "guest": 2 }, "memory": { "guest": memory } });
    write(world, "VirtualMachineInstancetype", "small", spec).await
}

/// The copy that a machine uses.
async fn copy(world: &KubeVirtWorld<'_>, machine: &Value) -> Result<Value> {
    let name = text(machine, "/spec/instancetype/revisionName");
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{name}", world.place.namespace);
    world.place.ask(Method::GET, &path, &Value::Null).await
}

/// Checks that the status of a pool shows the copies that a machine uses.
pub(crate) fn shows_copies(pool: &Value, machine: &Value) -> Result<()> {
    for (field, kind) in
        [("instancetype", "VirtualMachineInstancetype"), ("preference", "virtualmachinepreference")]
    {
        let (shown, used) = (&pool["status"][format!("{field}Ref")], &machine["spec"][field]);
        let expected = json!({
            "name": used["name"], "kind": kind, "controllerRevisionRef": { "name": used["revisionName"] },
        });
        ensure!(*shown == expected, "{field}: {shown} instead of {expected}");
    }
    Ok(())
}

/// Checks that each written status with machines has the copies, so that they cost no status of their own.
fn statuses_show_copies(world: &KubeVirtWorld<'_>) -> Result<()> {
    let written = world.writes()?;
    let statuses = written.iter().filter(|write| {
        write.resource == "virtualmachinepools" && write.subresource == "status" && write.code < 300
    });
    let mut found = 0;
    for status in statuses {
        let value =
            status.body.as_array().and_then(|operations| operations.last()).map(|last| &last["value"]);
        let value = value.unwrap_or(&Value::Null);
        if value["replicas"].as_u64().is_some_and(|replicas| replicas > 0) {
            ensure!(value["instancetypeRef"].is_object() && value["preferenceRef"].is_object(), "{value}");
            found += 1;
        }
    }
    ensure!(found > 0, "the audit log has the bodies of statuses");
    Ok(())
}

#[test]
fn all_machines_of_a_revision_use_one_copy_of_their_instance_type() {
    with_world("kubevirt-pins", async |world| {
        // Given a pool whose instance type does not exist, then it has no machine, and its condition says
        // why.
        world.create("p", &spec(2)).await?;
        let pool = world
            .until("the condition shows the missing object", async || {
                let pool = world.pool("p").await?;
                let is_shown = condition(&pool, "TemplateResolved").is_some_and(|condition| {
                    condition["status"] == "False" && condition["reason"] == "InstancetypeNotFound"
                });
                Ok(is_shown.then_some(pool))
            })
            .await?;
        world.until_event("InstancetypeNotFound", "small").await?;
        ensure!(world.machines().await?.is_empty(), "{pool}");
        ensure!(world.count("create controllerrevisions")? == 0, "{:#?}", world.writes()?);

        // When the objects are created, then all machines name the same copies.
        small(&world, "2048Mi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        let pool = world.until_status("p", 2).await?;
        ensure!(condition(&pool, "TemplateResolved").is_none(), "{pool}");
        let pinned = machines["p-0"]["spec"]["instancetype"].clone();
        ensure!(text(&pinned, "/revisionName").starts_with("p-small-v1beta1-"), "{pinned}");
        ensure!(machines["p-1"]["spec"]["instancetype"] == pinned, "{machines:#?}");
        // The status shows them, and never showed the machines of the revision without their copies.
        shows_copies(&pool, &machines["p-0"])?;
        statuses_show_copies(&world)?;
        ensure!(text(&machines["p-0"], "/spec/preference/revisionName").starts_with("p-linux-v1beta1-"));
        let stored = copy(&world, &machines["p-0"]).await?;
        ensure!(text(&stored, "/data/spec/memory/guest") == "2048Mi", "the spelling stays: {stored}");
        // Two copies and the revision are all that they cost.
        ensure!(world.count("create controllerrevisions")? == 3, "{:#?}", world.writes()?);
        world.is_settled().await?;

        // When the instance type changes and the pool grows, then new machines are like the others,
        small(&world, "8Gi").await?;
        world.patch("p", &json!({ "spec": { "replicas": 3 } })).await?;
        let machines = world.until_ready(&["p-0", "p-1", "p-2"]).await?;
        ensure!(machines["p-2"]["spec"]["instancetype"] == pinned, "{machines:#?}");
        ensure!(world.count("create controllerrevisions")? == 4, "{:#?}", world.writes()?);
        // and also when it is deleted, and a machine is replaced.
        let collection = world.place.path(API_VERSION, "VirtualMachineInstancetype")?;
        world.place.ask(Method::DELETE, &format!("{collection}/small"), &Value::Null).await?;
        world.delete_machine("p-0").await?;
        world.until_another("p-0", text(&machines["p-0"], "/metadata/uid")).await?;
        let machines = world.until_ready(&["p-0", "p-1", "p-2"]).await?;
        ensure!(machines["p-0"]["spec"]["instancetype"] == pinned, "{machines:#?}");

        // When a user deletes the copy, then the controller restores it, although the instance type is gone.
        let name = text(&pinned, "/revisionName");
        let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{name}", world.place.namespace);
        world.place.ask(Method::DELETE, &path, &Value::Null).await?;
        let restored = world
            .until("the copy exists again", async || Ok(copy(&world, &machines["p-0"]).await.ok()))
            .await?;
        ensure!(restored["metadata"]["uid"] != stored["metadata"]["uid"], "{restored}");
        ensure!(restored["data"] == stored["data"], "{restored}");
        world.until_event("PinRepaired", name).await?;
        world.is_settled().await?;

        // When a user detaches a machine, then it becomes an owner of its copies.
        world.patch_machine("p-2", &json!({ "metadata": { "ownerReferences": null } })).await?;
        world.until_ready(&["p-0", "p-1", "p-2", "p-3"]).await?;
        let owned = copy(&world, &machines["p-2"]).await?;
        let owners = owned["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        ensure!(owners.iter().any(|owner| owner["uid"] == machines["p-2"]["metadata"]["uid"]), "{owned}");

        // When the template changes, then its revision uses the instance type as it is now.
        small(&world, "4Gi").await?;
        let refresh = json!({ "spec": { "virtualMachineTemplate": { "metadata": {
            "annotations": { "vmpool.dev/refresh-instancetype": "1" },
        } } } });
        world.patch("p", &refresh).await?;
        world
            .until("all machines of the pool use another copy", async || {
                let machines = world.machines().await?;
                let is_new = |name: &str| {
                    let machine = machines.get(name);
                    machine.is_some_and(|machine| machine["spec"]["instancetype"] != pinned)
                };
                Ok(["p-0", "p-1", "p-3"].into_iter().all(is_new).then_some(()))
            })
            .await?;
        let machines = world.until_ready(&["p-0", "p-1", "p-2", "p-3"]).await?;
        ensure!(text(&copy(&world, &machines["p-0"]).await?, "/data/spec/memory/guest") == "4Gi");
        shows_copies(&world.until_status("p", 3).await?, &machines["p-0"])?;
        ensure!(machines["p-2"]["spec"]["instancetype"] == pinned, "the detached machine stays as it is");

        // When the pool is deleted, then the copies of the detached machine stay.
        world.delete_pool("p", "Background").await?;
        world.until_ready(&["p-2"]).await?;
        world
            .until("the pool's copies are gone, except that of the detached machine", async || {
                let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", world.place.namespace);
                let list = world.place.ask(Method::GET, &path, &Value::Null).await?;
                let kept = list["items"].as_array().map(Vec::len);
                Ok((kept == Some(2)).then_some(()))
            })
            .await?;
        copy(&world, &machines["p-2"]).await?;
        Ok(())
    });
}

/// The UIDs of the owners of the copy that a machine uses.
async fn owners(world: &KubeVirtWorld<'_>, machine: &Value) -> Result<Vec<Value>> {
    let copy = copy(world, machine).await?;
    let owners = copy["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    Ok(owners.iter().map(|owner| owner["uid"].clone()).collect())
}

#[test]
fn the_machines_own_their_copies_when_pools_are_handed_back() {
    alone("kubevirt-pins-back", async |world| {
        // Given a pool that owns the copy of its instance type,
        small(&world, "2Gi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        world.create("p", &spec(2)).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        let pool = world.until_status("p", 2).await?;
        ensure!(owners(&world, &machines["p-0"]).await? == [pool["metadata"]["uid"].clone()]);

        // when the pool loop of KubeVirt may run again, then the machines own it, and nothing that
        // virt-controller prunes.
        let collection = format!("/apis/kubevirt.io/v1/namespaces/{}/kubevirts", world.place.namespace);
        let kubevirt = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" }, "spec": {},
        });
        world.place.ask(Method::POST, &collection, &kubevirt).await?;
        let mut expected: Vec<Value> =
            ["p-0", "p-1"].map(|name| machines[name]["metadata"]["uid"].clone()).to_vec();
        expected.sort_by_key(Value::to_string);
        world
            .until("the machines are the owners of the copy", async || {
                let mut found = owners(&world, &machines["p-0"]).await?;
                found.sort_by_key(Value::to_string);
                Ok((found == expected).then_some(()))
            })
            .await?;
        world.is_settled().await?;

        // When the pool loop is off again, then the pool grows with the same copy, and owns it again.
        world.place.ask(Method::DELETE, &format!("{collection}/kubevirt"), &Value::Null).await?;
        world.patch("p", &json!({ "spec": { "replicas": 3 } })).await?;
        let grown = world.until_ready(&["p-0", "p-1", "p-2"]).await?;
        ensure!(
            grown["p-2"]["spec"]["instancetype"] == machines["p-0"]["spec"]["instancetype"],
            "{grown:#?}"
        );
        world
            .until("the pool is an owner of the copy", async || {
                Ok(owners(&world, &machines["p-0"]).await?.contains(&pool["metadata"]["uid"]).then_some(()))
            })
            .await?;
        world.is_settled().await
    });
}

/// Replaces a copy by one as a backup of an old cluster has it, while the controller stands still.
async fn restore_backup(world: &KubeVirtWorld<'_>, copy: &Value, vcpus: u64, is_owned: bool) -> Result<()> {
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", world.place.namespace);
    let mut old = copy.clone();
    old["metadata"] = json!({
        "name": copy["metadata"]["name"],
        "labels": copy["metadata"]["labels"],
        "ownerReferences": if is_owned { copy["metadata"]["ownerReferences"].clone() } else { json!([]) },
    });
    old["metadata"]["labels"][VERSION] = json!("v1alpha2");
    old["data"]["apiVersion"] = json!("instancetype.kubevirt.io/v1alpha2");
    old["data"]["spec"]["cpu"]["guest"] = json!(vcpus);
    world.controller.pause()?;
    let name = text(copy, "/metadata/name");
    world.place.ask(Method::DELETE, &format!("{path}/{name}"), &Value::Null).await?;
    world.place.ask(Method::POST, &path, &old).await?;
    world.controller.resume()?;
    Ok(())
}

/// The label of a copy with the version of the API.
const VERSION: &str = "instancetype.kubevirt.io/object-version";

#[test]
fn a_copy_of_an_old_cluster_is_replaced_and_an_object_that_is_not_the_pools_is_reported() {
    with_world("kubevirt-pins-old", async |world| {
        small(&world, "2048Mi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        world.create("p", &spec(1)).await?;
        let machine = world.until_ready(&["p-0"]).await?.remove("p-0").unwrap_or_default();
        world.until_status("p", 1).await?;
        world.is_settled().await?;
        let instance = world.instances().await?["p-0"]["metadata"]["uid"].clone();
        let stored = copy(&world, &machine).await?;
        let is_current = async || {
            let found = copy(&world, &machine).await.ok();
            let is = |found: &Value| {
                found["data"]["apiVersion"] == API_VERSION
                    && found["metadata"]["labels"][VERSION] == "v1beta1"
            };
            Ok(found.filter(is))
        };
        // When a backup of an old cluster is restored, then the copy is replaced by the same in the current
        // version.
        restore_backup(&world, &stored, 2, true).await?;
        let replaced = world.until("the copy has the current version", &is_current).await?;
        ensure!(replaced["data"] == stored["data"], "{replaced}");
        ensure!(
            replaced["metadata"]["ownerReferences"] == stored["metadata"]["ownerReferences"],
            "{replaced}"
        );
        world.until_event("PinRepaired", text(&stored, "/metadata/name")).await?;
        world.is_settled().await?;
        ensure!(world.instances().await?["p-0"]["metadata"]["uid"] == instance, "nothing was restarted");
        // When a client removes the label, then the controller adds it, and the object stays.
        let name = text(&stored, "/metadata/name");
        let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{name}", world.place.namespace);
        let unlabeled = json!({ "metadata": { "labels": { (VERSION): null } } });
        world.place.ask(Method::PATCH, &path, &unlabeled).await?;
        let labeled = world.until("the copy has its label", &is_current).await?;
        ensure!(labeled["metadata"]["uid"] == replaced["metadata"]["uid"], "{labeled}");
        world.is_settled().await?;
        // When the backup has another content, then it is replaced, too: no other data was made for this
        // revision.
        restore_backup(&world, &stored, 9, true).await?;
        let repaired = world.until("the copy has the current version", &is_current).await?;
        ensure!(repaired["data"] == stored["data"], "{repaired}");
        world.is_settled().await?;
        ensure!(world.instances().await?["p-0"]["metadata"]["uid"] == instance, "nothing was restarted");
        // When an object with another content does not belong to the pool, then it stays, and the pool names
        // it.
        restore_backup(&world, &stored, 9, false).await?;
        world
            .until("the pool reports the copy", async || {
                let pool = world.pool("p").await?;
                let message =
                    condition(&pool, "ReplicaFailure").map(|found| text(found, "/message").to_owned());
                let is_reported =
                    |message: String| message.contains(name) && message.contains("another content");
                Ok(message.is_some_and(is_reported).then_some(()))
            })
            .await?;
        ensure!(copy(&world, &machine).await?["data"]["spec"]["cpu"]["guest"] == 9, "a foreign copy stays");
        // When a user deletes it, then the copy is made again.
        world.place.ask(Method::DELETE, &path, &Value::Null).await?;
        world.until("the copy exists again", &is_current).await.map(drop)
    });
}
