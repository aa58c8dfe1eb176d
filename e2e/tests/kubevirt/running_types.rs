//! Instance types and running instances: a name that a volume gives, and a name that changes while the
//! instance runs.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::{API_VERSION, DATA_VOLUME_API_VERSION};
use vmpool_e2e::wait::eventually;
use vmpool_installation::programs::ControllerOptions;

use crate::copies::{create, machine, until_copied, with_copies};
use crate::pins::{shows_copies, small, spec, write};
use crate::world::{KubeVirtWorld, run_with_options, with_world};
use crate::{TestNamespace, guarded, run_to_end};

/// Checks the size of an instance: sockets, cores, and memory.
fn runs_with(instance: &Value, cpu: [u64; 2], memory: &str) -> Result<()> {
    let domain = &instance["spec"]["domain"];
    let found = [&domain["cpu"]["sockets"], &domain["cpu"]["cores"]].map(Value::as_u64);
    ensure!(found == cpu.map(Some) && domain["memory"]["guest"] == *memory, "{domain}");
    Ok(())
}

async fn instance(world: &KubeVirtWorld<'_>, name: &str) -> Result<Value> {
    world.instances().await?.remove(name).with_context(|| format!("the instance of {name}"))
}

/// The labels that name instance type `small`, and preference `cores` if `with_preference`.
fn defaults(with_preference: bool) -> Value {
    let mut labels = json!({
        "instancetype.kubevirt.io/default-instancetype": "small",
        "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
    });
    if with_preference {
        labels["instancetype.kubevirt.io/default-preference"] = json!("cores");
        labels["instancetype.kubevirt.io/default-preference-kind"] = json!("VirtualMachinePreference");
    }
    labels
}

/// A DataVolume without a source.
fn blank(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": DATA_VOLUME_API_VERSION, "kind": "DataVolume", "metadata": { "name": name, "labels": labels },
        "spec": { "source": { "blank": {} }, "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
    })
}

/// A machine, or the template of a pool, whose disk is a clone of the DataSource `debian` with this name.
fn clone_of_debian(mut spec: Value, disk: &str) -> Value {
    let inferred = json!({ "inferFromVolume": "root" });
    (spec["instancetype"], spec["preference"]) = (inferred.clone(), inferred);
    spec["dataVolumeTemplates"] = json!([{
        "metadata": { "name": disk },
        "spec": { "storage": {}, "sourceRef": { "kind": "DataSource", "name": "debian" } },
    }]);
    spec["template"]["spec"]["volumes"] = json!([{ "name": "root", "dataVolume": { "name": disk } }]);
    spec
}

/// Waits until the webhook infers names.
async fn until_inferred(world: &KubeVirtWorld<'_>, machine: &Value) -> Result<()> {
    let path = format!("{}?dryRun=All", world.place.path(API_VERSION, "VirtualMachine")?);
    eventually("the webhook infers names", Duration::from_mins(1), async || {
        let answer = world.place.send(Method::POST, &path, machine).await?;
        let inferred = answer.as_ref().is_ok_and(|stored| stored["spec"]["instancetype"]["name"] == "small");
        Ok(if inferred { Ok(()) } else { Err(format!("{answer:?}")) })
    })
    .await
}

async fn volumes_name_sizes(world: KubeVirtWorld<'_>) -> Result<()> {
    small(&world, "2048Mi").await?;
    let cores = json!({ "cpu": { "preferredCPUTopology": "cores" } });
    write(&world, "VirtualMachinePreference", "cores", cores).await?;
    // Given a DataVolume with labels, and a DataSource with labels of a DataVolume without,
    let place = &world.place;
    for volume in [blank("labeled", &defaults(false)), blank("debian", &json!({}))] {
        place.put(volume).await?;
    }
    place
        .put(json!({
            "apiVersion": DATA_VOLUME_API_VERSION, "kind": "DataSource",
            "metadata": { "name": "debian", "labels": defaults(true) },
            "spec": { "source": { "pvc": { "namespace": place.namespace, "name": "debian" } } },
        }))
        .await?;
    // when a machine has a volume of the first, and another one a clone of the second,
    let mut direct = machine("direct", "Always");
    direct["spec"]["instancetype"] = json!({ "inferFromVolume": "root" });
    if let Some(spec) = direct["spec"].as_object_mut() {
        spec.remove("preference");
    }
    direct["spec"]["template"]["spec"]["volumes"] =
        json!([{ "name": "root", "dataVolume": { "name": "labeled" } }]);
    until_inferred(&world, &direct).await?;
    create(&world, &direct).await?;
    let mut cloned = machine("cloned", "Always");
    cloned["spec"] = clone_of_debian(cloned["spec"].take(), "cloned-root");
    create(&world, &cloned).await?;
    // then the webhook has written the names, and the instances have the sizes.
    let machines = world.until_ready(&["cloned", "direct"]).await?;
    let named = json!({ "name": "small", "kind": "VirtualMachineInstancetype" });
    ensure!(machines.values().all(|machine| machine["spec"]["instancetype"] == named), "{machines:#?}");
    runs_with(&instance(&world, "direct").await?, [2, 1], "2048Mi")?;
    runs_with(&instance(&world, "cloned").await?, [1, 2], "2048Mi")?;

    // When a pool has clones, then its machines have the sizes, too, and its status shows the volume.
    let mut cloning = spec(2);
    let template = cloning["virtualMachineTemplate"]["spec"].take();
    cloning["virtualMachineTemplate"]["spec"] = clone_of_debian(template, "root");
    world.create("p", &cloning).await?;
    world.until_ready(&["cloned", "direct", "p-0", "p-1"]).await?;
    for name in ["p-0", "p-1"] {
        runs_with(&instance(&world, name).await?, [1, 2], "2048Mi")?;
    }
    let pool = world.until_status("p", 2).await?;
    for (field, name) in [("instancetypeRef", "small"), ("preferenceRef", "cores")] {
        let shown = &pool["status"][field];
        ensure!(shown["name"] == name && shown["inferFromVolume"] == "root", "{pool}");
    }
    Ok(())
}

#[test]
fn a_volume_names_the_instance_type_of_what_runs() {
    run_to_end(async {
        const NAMESPACE: &str = "team";
        let (cluster, installation) = guarded::standalone("inferred-types", &[]).await?;
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
        let place = TestNamespace { cluster: &cluster, namespace: NAMESPACE };
        let mut options = ControllerOptions::everywhere("one");
        options.extra.extend(["--platforms=kubevirt", "--instancetype-mode=Standalone"].map(str::to_owned));
        run_with_options(installation.accounts(), place, options, volumes_name_sizes).await?;
        installation.stop().await?;
        drop(cluster);
        Ok(())
    });
}

/// An instance type with this size, which pins its vCPUs if `pinned`. Only a restart changes that.
async fn sized(world: &KubeVirtWorld<'_>, name: &str, guest: u64, pinned: bool) -> Result<()> {
    let mut spec = json!({ "cpu": { "guest": guest }, "memory": { "guest": format!("{guest}Gi") } });
    if pinned {
        spec["cpu"]["dedicatedCPUPlacement"] = json!(true);
    }
    write(world, "VirtualMachineInstancetype", name, spec).await.map(drop)
}

fn restart_required(machine: &Value) -> bool {
    let conditions = machine["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "RestartRequired")
}

#[test]
fn another_type_of_a_running_machine_is_applied_live_or_at_its_next_start() {
    with_copies("copies-live", async |world| {
        sized(&world, "small", 2, false).await?;
        sized(&world, "large", 4, false).await?;
        sized(&world, "pinned", 8, true).await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        create(&world, &machine("db", "Always")).await?;
        world.until_ready(&["db"]).await?;
        let started = instance(&world, "db").await?;
        runs_with(&started, [2, 1], "2Gi")?;
        // When the machine names a type that differs in sockets and memory, then the running instance gets
        // both.
        world.patch_machine("db", &json!({ "spec": { "instancetype": { "name": "large" } } })).await?;
        let live = world
            .until("the instance has the size of large", async || {
                let found = instance(&world, "db").await?;
                Ok(runs_with(&found, [4, 1], "4Gi").is_ok().then_some(found))
            })
            .await?;
        ensure!(live["metadata"]["uid"] == started["metadata"]["uid"], "{live}");
        ensure!(until_copied(&world, "db").await?[0].contains("-large-"));
        ensure!(!restart_required(&world.machines().await?["db"]), "nothing is left to apply");
        // When it names one that only a restart applies, then the condition says so, and the instance stays
        // as it is.
        world.patch_machine("db", &json!({ "spec": { "instancetype": { "name": "pinned" } } })).await?;
        world
            .until("db requires a restart", async || {
                Ok(world.machines().await?.get("db").is_some_and(restart_required).then_some(()))
            })
            .await?;
        ensure!(until_copied(&world, "db").await?[0].contains("-pinned-"));
        world.is_settled().await?;
        let waiting = instance(&world, "db").await?;
        ensure!(waiting["metadata"]["uid"] == started["metadata"]["uid"], "the controller restarted it");
        runs_with(&waiting, [4, 1], "4Gi")?;
        // The next start applies it.
        world.place.delete(API_VERSION, "VirtualMachineInstance", "db").await?;
        world
            .until("a new instance has the size of pinned", async || {
                let found = world.instances().await?.remove("db");
                Ok(found.filter(|found| runs_with(found, [8, 1], "8Gi").is_ok()))
            })
            .await?;
        world.until_ready(&["db"]).await?;
        ensure!(!restart_required(&world.machines().await?["db"]), "the restart applied it");
        Ok(())
    });
}

#[test]
fn another_type_in_the_template_restarts_the_machines_of_a_pool_within_the_budget() {
    with_world("kubevirt-pins-restart", async |world| {
        sized(&world, "small", 2, false).await?;
        sized(&world, "pinned", 4, true).await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        let mut proactive = spec(4);
        proactive["maxUnavailable"] = json!(1);
        world.create("p", &proactive).await?;
        let names = ["p-0", "p-1", "p-2", "p-3"];
        world.until_ready(&names).await?;
        world.is_settled().await?;
        let before = world.instances().await?;
        // When the template names another type,
        let matcher = json!({ "spec": { "virtualMachineTemplate": { "spec": { "instancetype": { "name": "pinned" } } } } });
        world.patch("p", &matcher).await?;
        // then each machine is restarted, one at a time, and runs with it.
        let mut fewest = names.len();
        let after = eventually("all machines run with the other type", Duration::from_mins(1), async || {
            let (machines, instances) = (world.machines().await?, world.instances().await?);
            let ready = machines.values().filter(|machine| machine["status"]["ready"] == true).count();
            fewest = fewest.min(ready);
            let has_it = |name: &&str| {
                instances.get(*name).is_some_and(|found| runs_with(found, [4, 1], "4Gi").is_ok())
            };
            let state = || format!("{instances:#?}\n{}", world.controller.log_tail(60));
            let done = ready == names.len() && names.iter().all(has_it);
            Ok(if done { Ok(instances) } else { Err(state()) })
        })
        .await?;
        ensure!(fewest == names.len() - 1, "{fewest} machines were ready");
        for name in names {
            ensure!(after[name]["metadata"]["uid"] != before[name]["metadata"]["uid"], "{name} still runs");
        }
        ensure!(world.count("delete virtualmachineinstances")? == names.len(), "{:#?}", world.writes()?);
        let pool = world.until_status("p", names.len()).await?;
        shows_copies(&pool, &world.machines().await?["p-0"])?;
        world.is_settled().await
    });
}
