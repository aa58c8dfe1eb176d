//! Pools that another controller of the same API has served until now, on the real API server: taken over without a
//! restart and without a write too many, served like any other, and handed back.

use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmpool_e2e::choke::{Asked, Choke, Moment};
use vmpool_e2e::cluster::apply;
use vmpool_e2e::object::{API_VERSION, Kind, Object, TEMPLATE_HASH_LABEL, uids};
use vmpool_e2e::programs::{Accounts, CONTROLLER_ACCOUNT, ControllerOptions, SYSTEM_NAMESPACE};
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{Condition, condition, members, ready_replicas, status};
use vmpool_e2e::world::{Pool, SETTLE, World};

const PREFIX: &str = "vmpool.virtualization.deckhouse.io";
const POOL: &str = "lab";
/// Machines that it had settled, and the disks that they keep.
const SETTLED: [(&str, &str); 2] = [("lab-c5x2q", "lab-work-b2c3d4"), ("lab-k7w9z", "lab-work-f6g7h8")];
/// One that it had not brought the last change to.
const LATE: &str = "lab-m4n6p";
/// One that it had only just made, with the names of the templates in place of disks.
const YOUNG: &str = "lab-t8v2x";
/// A kept disk that is free.
const FREE: &str = "lab-work-z9y8x7";
/// A disk of somebody else, with the name of a template.
const STRANGER: &str = "work";

/// What another controller has left behind, as one document per object; UIDs stand as `uid of NAME`.
fn left_behind() -> anyhow::Result<Vec<Value>> {
    let text = include_str!("../../../controller/src/reconcile/tests/adoption.yaml");
    let mut documents: serde_yaml_ng::Value = serde_yaml_ng::from_str(text)?;
    documents.apply_merge()?;
    Ok(serde_yaml_ng::from_value(documents)?)
}

/// The class and the images that the fixture asks for.
fn platform() -> [Value; 3] {
    let image = |name: &str| {
        json!({
            "apiVersion": API_VERSION, "kind": "ClusterVirtualImage", "metadata": { "name": name },
            "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/a.qcow2" } } },
        })
    };
    let class = json!({
        "apiVersion": API_VERSION, "kind": "VirtualMachineClass", "metadata": { "name": "medium" }, "spec": {} });
    [image("debian"), image("extras"), class]
}

/// Puts the names and UIDs of this cluster into a document of the fixture.
fn placed(document: &Value, world: &World, known: &[(String, String)]) -> anyhow::Result<Value> {
    let mut text = document.to_string().replace("team-a", world.namespace());
    text = text.replace("\"NOW\"", &json!(Timestamp::now().to_string()).to_string());
    for (name, uid) in known {
        // With its end, since one name may begin like another.
        text = text.replace(&format!("uid of {name}\""), &format!("{uid}\""));
    }
    let mut object: Value = serde_json::from_str(&text)?;
    object["apiVersion"] = json!(API_VERSION);
    Ok(object)
}

/// Writes everything down that the other controller left, while nobody serves the pool, and waits until the platform
/// runs what it can: all but the young machine.
async fn inherit(world: &World) -> anyhow::Result<Pool<'_>> {
    apply(&world.client(), &platform(), None).await?;
    let mut known = Vec::new();
    let mut told = Value::Null;
    for document in left_behind()? {
        let mut object = placed(&document, world, &known)?;
        if let Some(status) = object.as_object_mut().and_then(|object| object.remove("status")) {
            told = status;
        }
        let kind = match object["kind"].as_str() {
            Some("VirtualMachinePool") => Kind::Pool,
            Some("VirtualMachine") => Kind::Machine,
            _ => Kind::Disk,
        };
        let created = world.post(kind, &object).await?;
        if created.name() == STRANGER {
            world.treat_as_foreign(&created);
        }
        known.push((created.name().to_owned(), created.uid().to_owned()));
    }
    let pool = world.existing(POOL).await?;
    tell(world, &placed(&json!({ "status": told }), world, &known)?["status"]).await?;
    let settled = [SETTLED[0].0, SETTLED[1].0, LATE];
    let runs = Condition::new("machines that run before they are taken over", move |view| {
        let running = view.live().filter(|machine| machine.is_running()).map(Object::name);
        running.eq(settled)
    });
    pool.until(runs).await?;
    Ok(pool)
}

/// Writes the status of the pool as the other controller does.
async fn tell(world: &World, status: &Value) -> anyhow::Result<()> {
    let patch = json!({ "status": status });
    let params = PatchParams::default();
    world.api(Kind::Pool).patch_status(POOL, &params, &Patch::Merge(&patch)).await.context("telling")?;
    Ok(())
}

/// Label and annotation of a machine: the revision that is in effect, and the one that was written.
fn markers(machine: &Object) -> (&str, &str) {
    let written = machine.annotation("vmpool.virtualization.deckhouse.io/patched-template-hash");
    (machine.label(TEMPLATE_HASH_LABEL).unwrap_or_default(), written.unwrap_or_default())
}

/// Writes of our controller since a mark that went through, apart from leases and events: `verb resource name`.
fn writes(world: &World, since: usize) -> anyhow::Result<Vec<String>> {
    let audit = world.audit()?;
    let ours = audit[since..].iter().filter(|entry| entry.user == Accounts::controller_user());
    let writes = ours.filter(|entry| entry.is_write() && entry.is_success() && !entry.dry_run);
    let work = writes.filter(|entry| !["leases", "events"].contains(&entry.resource.as_str()));
    Ok(work
        .map(|entry| {
            let slash = if entry.subresource.is_empty() { "" } else { "/" };
            format!("{} {}{slash}{} {}", entry.verb, entry.resource, entry.subresource, entry.name)
        })
        .collect())
}

/// How many of these writes are about the object of this name.
fn about(writes: &[String], name: &str) -> usize {
    writes.iter().filter(|write| write.ends_with(&format!(" {name}"))).count()
}

/// Machines that ran at a mark of the history and did not run at some moment since.
fn disturbed(world: &World, since: usize) -> Vec<String> {
    let history = world.recorder().history();
    let machines = history.changes().iter().filter(|change| change.kind == Kind::Machine);
    let mut running = std::collections::BTreeSet::new();
    let mut disturbed = Vec::new();
    for (place, change) in machines.enumerate() {
        let (uid, runs) = (change.object.uid().to_owned(), change.object.is_running() && !change.removed);
        if place < since {
            if runs {
                running.insert(uid)
            } else {
                running.remove(&uid)
            };
        } else if running.contains(&uid) && (!runs || change.object.is_terminating()) {
            disturbed.push(format!("{} at revision {}", change.object.name(), change.revision));
        }
    }
    disturbed
}

/// A place in the history for [`disturbed`].
fn machine_changes(world: &World) -> usize {
    world.recorder().history().changes().iter().filter(|change| change.kind == Kind::Machine).count()
}

/// All of the pool run, and all but the late one, which waits for a restart, have the current template in effect.
fn taken_over() -> Condition {
    ready_replicas(4)
        .and(status("updatedReplicas", 3))
        .and(status("restartPendingReplicas", 1))
        .and(condition("Synced", "False", "RestartPendingApproval"))
}

fn synced(count: i64) -> Condition {
    ready_replicas(count).and(status("updatedReplicas", count)).and(condition("Synced", "True", "PoolSynced"))
}

fn references(machine: &Object) -> Vec<&str> {
    machine.disk_references().collect()
}

/// What nobody may see of a change of controllers: that a machine stopped, came or went, or a disk changed hands.
async fn untouched(world: &World, pool: &Pool<'_>, before: &[Object]) -> anyhow::Result<()> {
    let now = pool.machines().await?;
    ensure!(uids(&now) == uids(before), "machines came or went");
    for (name, kept) in SETTLED {
        let machine = world.get(Kind::Machine, name).await?;
        let former =
            before.iter().find(|former| former.name() == name).context("a machine of the fixture")?;
        ensure!(machine.at("/spec") == former.at("/spec"), "the spec of {name} was touched");
        ensure!(
            machine.at("/metadata/generation") == former.at("/metadata/generation"),
            "{name} was touched"
        );
        ensure!(references(&machine).contains(&kept), "{name} has lost {kept}");
    }
    Ok(())
}

#[test]
fn what_another_controller_left_is_taken_over_with_one_write_each_and_served_like_any_other() {
    scenario("what another controller left is taken over").guarded().controllers(0).run(async |world| {
        let pool = inherit(world).await?;
        let before = pool.machines().await?;
        let (mark, since) = (world.audit()?.len(), machine_changes(world));
        // When our controller starts,
        world.add_controller().await?;
        pool.until(taken_over()).await?;
        world.settles().await?;
        // then nobody notices,
        ensure!(disturbed(world, since).is_empty(), "{:?}", disturbed(world, since));
        untouched(world, &pool, &before).await?;
        // machines that were settled got their markers in one write and their disks none,
        let writes = writes(world, mark)?;
        let revision = pool.get().await?.text("/status/desiredTemplateHash").to_owned();
        ensure!(revision.len() == 16, "a revision of {revision:?}");
        for (name, kept) in SETTLED {
            ensure!(about(&writes, name) == 1 && about(&writes, kept) == 0, "{name}: {writes:#?}");
            ensure!(about(&writes, &format!("{name}-system")) == 0, "{name}: {writes:#?}");
            let machine = world.get(Kind::Machine, name).await?;
            ensure!(markers(&machine) == (&revision, &revision), "{name}: {:?}", markers(&machine));
        }
        // the late one got the template, which is in effect after a restart, and the young one its disks;
        ensure!(about(&writes, LATE) == 1 && about(&writes, YOUNG) <= 2, "{writes:#?}");
        let late = world.get(Kind::Machine, LATE).await?;
        ensure!(late.number("/spec/cpu/cores") == Some(2) && markers(&late).0 != revision, "{late:?}");
        let young = world.get(Kind::Machine, YOUNG).await?;
        let own = format!("{YOUNG}-system");
        ensure!(references(&young) == [own.as_str(), FREE], "{:?}", references(&young));
        // and what else was written are its disk, the revision, and the status.
        let machines_made = writes.iter().filter(|write| write.starts_with("create virtualmachines")).count();
        let deleted = writes.iter().filter(|write| write.starts_with("delete")).count();
        let disks_made = writes.iter().filter(|write| write.starts_with("create virtualdisks")).count();
        ensure!((machines_made, deleted, disks_made) == (0, 0, 1), "{writes:#?}");
        ensure!(writes.len() <= 14, "{} writes: {writes:#?}", writes.len());
        tracing::info!(writes = writes.len(), "for taking over a pool of four");

        // It is a pool like any other: a restart brings the change into effect,
        world.operate("Restart", &late).await?;
        pool.until(synced(4)).await?;
        // a new template reaches all of them,
        let size = |size: &str| {
            json!({ "spec": { "virtualMachineTemplate": {
                "metadata": { "labels": { "stage": "done" } },
                "spec": { "disruptions": { "restartApprovalMode": "Automatic" }, "memory": { "size": size } } } } })
        };
        pool.edit(&size("2Gi")).await?;
        let resized = Condition::new("machines of 2Gi in another stage", |view| {
            view.live().all(|machine| {
                machine.text("/spec/memory/size") == "2Gi" && machine.label("stage") == Some("done")
            })
        });
        pool.until_within(resized.and(synced(4)), Duration::from_secs(90)).await?;
        ensure!(uids(&pool.machines().await?) == uids(&before), "machines were recreated");
        // it grows, it loses whom somebody names, and shrinks from its old end.
        pool.scale(6).await?;
        pool.until(synced(6)).await?;
        let named = world.get(Kind::Machine, SETTLED[0].0).await?;
        pool.remove(std::slice::from_ref(&named)).await?;
        pool.until(synced(5)).await?;
        pool.scale(2).await?;
        pool.until(synced(2)).await?;
        let left = pool.machines().await?;
        ensure!(left.iter().all(|machine| !uids(&before).contains(&machine.uid().to_owned())), "{left:?}");
        Ok::<_, anyhow::Error>(())
    });
}

/// What the other controller does to a machine whose hash is not its own: it writes the template's spec, with the
/// devices that the machine has, and its markers.
async fn rewrite(world: &World, pool: &Object, machine: &Object, hash: &str) -> anyhow::Result<Object> {
    let mut spec = pool.at("/spec/virtualMachineTemplate/spec").clone();
    spec["blockDeviceRefs"] = machine.at("/spec/blockDeviceRefs").clone();
    let patch = json!({
        "metadata": {
            "labels": { TEMPLATE_HASH_LABEL: hash },
            "annotations": { format!("{PREFIX}/patched-template-hash"): hash },
        },
        "spec": spec,
    });
    Ok(world.patch(Kind::Machine, machine.name(), &patch).await?)
}

#[test]
fn a_pool_is_handed_back_and_taken_over_again_without_a_restart() {
    const HASH: &str = "5e1f00d5";
    scenario("a pool is handed back").controllers(0).run(async |world| {
        let pool = inherit(world).await?;
        let ours = world.add_controller().await?;
        pool.until(taken_over()).await?;
        // A change by hand would be undone by whoever writes the whole spec: here as there.
        pool.edit(
            &json!({ "spec": { "virtualMachineTemplate": { "spec": { "memory": { "size": "2Gi" } } } } }),
        )
        .await?;
        pool.until(status("restartPendingReplicas", 4)).await?;
        for machine in pool.machines().await? {
            world.operate("Restart", &machine).await?;
        }
        pool.until(synced(4)).await?;
        // Given one that has left its disk behind,
        pool.scale(3).await?;
        pool.until(synced(3)).await?;
        world.settles().await?;
        // when ours has ended, then what the other one goes by is there,
        ours.stop().await?;
        let stored = pool.get().await?;
        let before = pool.machines().await?;
        for machine in &before {
            let names = references(machine);
            ensure!(names[0] == format!("{}-system", machine.name()), "{names:?}");
            let kept = world.get(Kind::Disk, names[1]).await?;
            let label = kept.label("vmpool.virtualization.deckhouse.io/disk-template");
            ensure!(kept.owner_uid() == pool.uid() && label == Some("work"), "{kept:?}");
        }
        let used: Vec<&str> = before.iter().flat_map(references).collect();
        let free: Vec<Object> =
            pool.disks().await?.into_iter().filter(|disk| !used.contains(&disk.name())).collect();
        ensure!(free.len() == 1, "{free:?}");
        ensure!(free[0].annotation("vmpool.virtualization.deckhouse.io/free-since").is_some(), "{free:?}");
        ensure!(free[0].annotation("vmpool.virtualization.deckhouse.io/claimed-by").is_none(), "{free:?}");
        // and what that does then is no change to the platform.
        let since = machine_changes(world);
        for machine in &before {
            let after = rewrite(world, &stored, machine, HASH).await?;
            ensure!(after.at("/spec") == machine.at("/spec"), "{} is another one now", machine.name());
            ensure!(after.at("/metadata/generation") == machine.at("/metadata/generation"));
        }
        let mut told = stored.at("/status").clone();
        told["desiredTemplateHash"] = json!(HASH);
        tell(world, &told).await?;
        pool.holds(members(3), SETTLE).await?;
        ensure!(disturbed(world, since).is_empty(), "{:?}", disturbed(world, since));
        // And when ours comes back, it is one write for each machine once more, and no restart.
        let mark = world.audit()?.len();
        ours.restart().await?;
        let current = stored.text("/status/desiredTemplateHash").to_owned();
        let marked = Condition::new("machines with our markers", move |view| {
            view.live().all(|machine| markers(machine) == (&current, &current))
        });
        pool.until(marked.and(synced(3))).await?;
        world.settles().await?;
        let writes = writes(world, mark)?;
        for machine in &before {
            ensure!(about(&writes, machine.name()) == 1, "{writes:#?}");
        }
        ensure!(!writes.iter().any(|write| write.contains("virtualdisks")), "{writes:#?}");
        ensure!(disturbed(world, since).is_empty(), "{:?}", disturbed(world, since));
        ensure!(uids(&pool.machines().await?) == uids(&before), "machines came or went");
        Ok::<_, anyhow::Error>(())
    });
}

/// Writes of the controller that are about the work, not about its lease or the news.
fn work(asked: &Asked) -> bool {
    asked.is_write() && !asked.path.contains("/leases") && !asked.path.contains("/events")
}

#[test]
fn a_controller_that_dies_in_the_middle_of_taking_over_leaves_nothing_half_done() {
    /// Where it dies: behind so many writes, and whether the next one still arrives.
    const DEATHS: [(usize, Moment); 3] = [(0, Moment::After), (1, Moment::Before), (1, Moment::After)];
    scenario("a controller dies in the middle of taking over").controllers(0).run(async |world| {
        let choke = Choke::open(world.cluster(), SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
        let options = ControllerOptions {
            lease_duration: Duration::from_secs(3),
            renew_interval: Duration::from_millis(500),
            kubeconfig: Some(choke.kubeconfig(world.cluster())?),
            // One write at a time, so that each death is at another one.
            extra: vec!["--request-deadline=1500ms".to_owned(), "--max-in-flight-writes=1".to_owned()],
            ..ControllerOptions::new(world.namespace(), "mortal")
        };
        let controller = world.add_controller_with(options).await?;
        controller.stop().await?;
        let pool = inherit(world).await?;
        let before = pool.machines().await?;
        let (mark, since) = (world.audit()?.len(), machine_changes(world));
        for (passing, moment) in DEATHS {
            let mortal = controller.clone();
            let death = choke.trap(work, passing, moment, move || mortal.kill());
            controller.restart().await?;
            death.done().await.with_context(|| format!("it dies {moment:?} write {passing}"))?;
            tracing::info!(?moment, written = ?writes(world, mark)?, "it died");
        }
        controller.restart().await?;
        pool.until(taken_over()).await?;
        world.settles().await?;
        // No write was done twice, and nobody noticed.
        let writes = writes(world, mark)?;
        for (name, kept) in SETTLED {
            ensure!(about(&writes, name) == 1 && about(&writes, kept) == 0, "{name}: {writes:#?}");
        }
        ensure!(!writes.iter().any(|write| write.starts_with("delete")), "{writes:#?}");
        untouched(world, &pool, &before).await?;
        ensure!(disturbed(world, since).is_empty(), "{:?}", disturbed(world, since));
        let young = world.get(Kind::Machine, YOUNG).await?;
        ensure!(young.is_running() && references(&young).len() == 2, "{young:?}");
        Ok::<_, anyhow::Error>(())
    });
}
