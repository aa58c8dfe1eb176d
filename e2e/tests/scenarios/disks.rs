//! Disks: allocation of retained disks, disk garbage collection, expansion, and added and removed templates.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rstest::rstest;
use serde_json::json;
use vmpool_api::{annotations, labels};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    PoolPredicate, PoolView, disk_count, machine_count, negate_condition, no_condition, pool_event,
    ready_replicas,
};
use vmpool_e2e::world::{PoolHandle, SETTLE, until_after_second};
use vmpool_invariants::object::{JsonObject, TestedKind};

const MOUNT_LOG: &str = "simulator.vmpool.dev/mount-log";

/// The disks of a template.
fn of_template<'a>(view: PoolView<'a>, template: &str) -> Vec<&'a JsonObject> {
    view.disks().into_iter().filter(|disk| disk.label(labels::DISK_TEMPLATE) == Some(template)).collect()
}

/// This number of disks of a template are free and have the annotation with the time.
fn stamped(template: &'static str, count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} free disks of {template}"), move |view| {
        of_template(view, template)
            .iter()
            .filter(|disk| disk.annotation(annotations::FREE_SINCE).is_some())
            .count()
            == count
    })
}

/// This number of disks of a template exist.
fn filling(template: &'static str, count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} disks of {template}"), move |view| {
        of_template(view, template).len() == count
    })
}

async fn disks_of(pool: &PoolHandle<'_>, template: &str) -> anyhow::Result<Vec<JsonObject>> {
    let disks = pool.disks().await?;
    Ok(disks.into_iter().filter(|disk| disk.label(labels::DISK_TEMPLATE) == Some(template)).collect())
}

fn uids(objects: &[JsonObject]) -> BTreeSet<&str> {
    objects.iter().map(JsonObject::uid).collect()
}

/// UIDs of the machines that have used a disk.
fn log(disk: &JsonObject) -> Vec<&str> {
    disk.annotation(MOUNT_LOG).unwrap_or_default().split(',').filter(|uid| !uid.is_empty()).collect()
}

#[test]
fn a_retained_disk_is_allocated_to_a_new_machine_with_its_data() {
    define_scenario("a retained disk is allocated to a new machine").run(async |world| {
        // Given a pool whose machines have a retained disk,
        let pool = world.pool("web").replicas(2).disk("root").retained("cache", 0, "10m").ready().await?;
        let caches = disks_of(&pool, "cache").await?;
        let first: BTreeSet<String> =
            pool.machines().await?.iter().map(|machine| machine.uid().to_owned()).collect();
        // when the pool is scaled to zero,
        pool.scale(0).await?;
        pool.until(machine_count(0).and(disk_count(2)).and(stamped("cache", 2))).await?;
        // then the retained disks remain,
        pool.holds(disk_count(2), SETTLE).await?;
        // and are allocated to the machines of a later scale-up, one each.
        pool.scale(2).await?;
        pool.until(ready_replicas(2).and(filling("cache", 2)).and(stamped("cache", 0))).await?;
        let again = disks_of(&pool, "cache").await?;
        assert_eq!(uids(&again), uids(&caches), "the same two disks");
        let second: BTreeSet<String> =
            pool.machines().await?.iter().map(|machine| machine.uid().to_owned()).collect();
        assert!(first.is_disjoint(&second), "the machines are new");
        for disk in &again {
            let log = log(disk);
            assert_eq!(log.len(), 2, "{} was used by {log:?}", disk.name());
            assert!(first.contains(log[0]) && second.contains(log[1]), "{log:?}");
        }
        pool.until(pool_event("DiskReused")).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_idle_pool_deletes_old_free_disks_and_keeps_the_newest() {
    define_scenario("an idle pool deletes old free disks and keeps the newest").run(async |world| {
        let pool = world.pool("web").replicas(3).disk("root").retained("cache", 1, "2s").ready().await?;
        pool.scale(2).await?;
        pool.until(stamped("cache", 1)).await?;
        let oldest = disks_of(&pool, "cache")
            .await?
            .into_iter()
            .find(|disk| disk.annotation(annotations::FREE_SINCE).is_some());
        let oldest = oldest.expect("the condition has observed it");
        // The annotations have whole seconds: the next disks become free in a later second.
        let since = oldest.annotation(annotations::FREE_SINCE).unwrap_or_default();
        until_after_second(since).await?;
        pool.scale(0).await?;
        // Without further changes of the pool, all free disks but one are deleted,
        pool.until_within(filling("cache", 1), Duration::from_secs(90)).await?;
        // the newest remains,
        pool.holds(filling("cache", 1), SETTLE).await?;
        let kept = disks_of(&pool, "cache").await?;
        assert!(!uids(&kept).contains(oldest.uid()), "{} was the oldest", oldest.name());
        // and is allocated to the next machine.
        pool.scale(1).await?;
        pool.until(ready_replicas(1)).await?;
        assert_eq!(uids(&disks_of(&pool, "cache").await?), uids(&kept));
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_leader_killed_during_disk_allocation_allocates_no_disk_twice() {
    define_scenario("a leader killed during disk allocation allocates no disk twice").controllers(2).run(
        async |world| {
            let pool = world.pool("web").replicas(6).disk("root").retained("cache", 0, "10m").ready().await?;
            pool.scale(0).await?;
            pool.until(machine_count(0).and(stamped("cache", 6))).await?;
            // When the leader is killed during the allocation,
            let claimed = PoolPredicate::new("an allocated disk", |view| {
                view.disks().iter().any(|disk| disk.annotation(annotations::CLAIMED_BY).is_some())
            });
            pool.scale(6).await?;
            pool.until(claimed).await?;
            pool.allow_in_flight(6);
            for controller in world.controllers() {
                controller.kill();
            }
            world.add_controller().await?;
            // then every machine gets one of them, and none is created. (Invariant I3: no disk is used by two
            // machines.)
            pool.until_within(ready_replicas(6), Duration::from_secs(90)).await?;
            pool.until(filling("cache", 6).and(stamped("cache", 0))).await?;
            let used: BTreeSet<String> = pool
                .machines()
                .await?
                .iter()
                .flat_map(|machine| machine.disk_references().map(str::to_owned).collect::<Vec<_>>())
                .collect();
            assert_eq!(used.len(), 12, "two disks for each machine, and no disk twice");
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn a_disk_attached_to_a_foreign_machine_is_not_free() {
    define_scenario("a disk attached to a foreign machine is not free").run(async |world| {
        let pool = world.pool("web").replicas(1).disk("root").retained("cache", 0, "1s").ready().await?;
        let cache = disks_of(&pool, "cache").await?.remove(0);
        // Given a foreign machine that refers to the disk,
        let visitor = world.foreign_machine_on("visitor", &cache).await?;
        // when the pool's machine is removed,
        pool.scale(0).await?;
        pool.until(machine_count(0)).await?;
        // then the disk is neither deleted nor allocated.
        pool.holds(filling("cache", 1).and(stamped("cache", 0)), Duration::from_secs(4)).await?;
        pool.scale(1).await?;
        pool.until(ready_replicas(1).and(filling("cache", 2))).await?;
        // When the foreign machine is deleted, the disk is free and is deleted.
        world.delete(&visitor).await?;
        pool.until_within(filling("cache", 1), Duration::from_mins(1)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

fn size(template: &'static str, size: &'static str) -> PoolPredicate {
    PoolPredicate::new(format!("all disks of {template} request {size}"), move |view| {
        let disks = of_template(view, template);
        !disks.is_empty() && disks.iter().all(|disk| disk.text("/spec/persistentVolumeClaim/size") == size)
    })
}

#[test]
fn disks_expand_with_their_template_and_never_shrink() {
    define_scenario("disks expand with their template and never shrink").run(async |world| {
        let pool = world.pool("web").replicas(2).disk("root").retained("cache", 0, "10m").ready().await?;
        let templates = |size: &str| {
            let disk = |name: &str| json!({ "name": name, "spec": {
                "persistentVolumeClaim": { "size": size },
                "dataSource": { "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": "alpine" } } } });
            let mut cache = disk("cache");
            cache["reclaim"] = json!({ "onScaleDown": "Retain", "keep": 0, "ttl": "10m" });
            json!({ "spec": { "virtualDiskTemplates": [disk("root"), cache] } })
        };
        pool.edit(&templates("1Gi")).await?;
        pool.until(size("root", "1Gi").and(size("cache", "1Gi")).and(pool_event("DiskResized"))).await?;
        pool.edit(&templates("512Mi")).await?;
        pool.holds(size("root", "1Gi").and(size("cache", "1Gi")), SETTLE).await?;
        pool.until(ready_replicas(2)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// All live machines run and refer to this number of disks.
fn devices(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("running machines with {count} disks each"), move |view| {
        view.live().all(|machine| machine.is_running() && machine.disk_references().count() == count)
    })
}

#[test]
fn an_added_or_removed_disk_template_is_applied_to_running_machines() {
    define_scenario("an added or removed disk template is applied").run(async |world| {
        let pool = world.pool("web").replicas(2).disk("root").ready().await?;
        let before = pool.machines().await?;
        // When a template is added, every machine gets a disk of it without a restart,
        pool.edit_templates(|refs, templates| {
            refs.push(json!({ "kind": "VirtualDisk", "name": "data" }));
            let mut data = templates[0].clone();
            data["name"] = json!("data");
            data["reclaim"] = json!({ "onScaleDown": "Retain", "keep": 0, "ttl": "10m" });
            templates.push(data);
        })
        .await?;
        pool.until(devices(2).and(filling("data", 2))).await?;
        pool.until(ready_replicas(2)).await?;
        // and when it is removed, the disks are detached and deleted.
        pool.edit_templates(|refs, templates| {
            refs.retain(|device| device["name"] != "data");
            templates.retain(|template| template["name"] != "data");
        })
        .await?;
        pool.until_within(devices(1).and(filling("data", 0)), Duration::from_secs(90)).await?;
        pool.until(ready_replicas(2)).await?;
        assert_eq!(uids(&pool.machines().await?), uids(&before), "no machine was recreated");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_failed_disk_is_replaced_when_its_machine_does_not_run() {
    define_scenario("a failed disk is replaced when its machine does not run").run(async |world| {
        // Given a platform that fails to provision the first disk,
        world.knob("fail-provisioning", "1").await?;
        let pool = world.pool("web").replicas(1).retained("cache", 0, "10m").create().await?;
        // then the machine gets another disk and runs.
        pool.until_within(ready_replicas(1), Duration::from_secs(90)).await?;
        let machine = pool.machine(0).await?;
        let used: Vec<&str> = machine.disk_references().collect();
        let disk = world.get(TestedKind::Disk, used[0]).await?;
        assert_ne!(disk.phase(), "Failed");
        Ok::<_, anyhow::Error>(())
    });
}

#[rstest]
#[case::in_words("a disk of the virtual machine is on node n1, which cannot run it")]
#[case::in_a_code("zone mismatch (code 17)")]
fn a_free_disk_refused_without_its_name_in_the_message_is_kept(#[case] message: &'static str) {
    define_scenario("a free disk refused without its name is kept").run(async |world| {
        // Given a free disk, and a platform that cannot start a machine with it,
        let pool = world.pool("web").replicas(1).disk("root").retained("cache", 0, "10m").ready().await?;
        pool.scale(0).await?;
        pool.until(machine_count(0).and(stamped("cache", 1))).await?;
        let cache = disks_of(&pool, "cache").await?.remove(0);
        let refusal = world.refuse_machines_on(cache.name(), message).await?;
        // when the pool is scaled up, then the machine gets a new disk after some refusals,
        pool.scale(1).await?;
        pool.until_within(ready_replicas(1).and(filling("cache", 2)), Duration::from_secs(90)).await?;
        // and the first one is free again.
        pool.until_within(stamped("cache", 1), Duration::from_secs(90)).await?;
        refusal.lift().await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_failed_ephemeral_disk_is_reported_and_replaced() {
    define_scenario("a failed ephemeral disk is reported and replaced").run(async |world| {
        // Given a platform that fails to provision the first two disks,
        world.knob("fail-provisioning", "2").await?;
        let pool = world.pool("web").replicas(1).disk("root").create().await?;
        // then the condition contains the failed disk and its machine,
        let reported = PoolPredicate::new("a reported failed disk", |view| {
            let failure = view.pool().and_then(|pool| pool.condition("ReplicaFailure"));
            let message = failure.and_then(|failure| failure["message"].as_str()).unwrap_or_default();
            view.machines().iter().any(|machine| message.contains(machine.name()))
                && message.contains("-root")
        });
        pool.sees(reported).await?;
        // and the machine gets another disk and runs; failed disks are deleted.
        let alone = PoolPredicate::new("one disk, which has not failed", |view| {
            let disks = view.disks();
            disks.len() == 1 && disks.iter().all(|disk| disk.phase() == "Ready")
        });
        pool.until_within(ready_replicas(1).and(alone), Duration::from_mins(2)).await?;
        pool.until(no_condition("ReplicaFailure")).await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// DVP restores a disk from a snapshot: it marks and deletes the disk, waits until it is gone, and creates it
/// without an owner. Here it is slow, so that a pool which repairs its machines has all the time to create
/// the disk in between.
#[test]
fn a_disk_that_the_platform_restores_is_not_created_in_between() {
    define_scenario("a disk that the platform restores").run(async |world| {
        let pool = world.pool("desk").replicas(1).disk("root").retained("home", 1, "1h").ready().await?;
        let machine = pool.machine(0).await?;
        world.operate("Stop", &machine).await?;
        let mut disks = pool.disks().await?;
        disks.sort_by(|a, b| a.name().cmp(b.name()));
        ensure!(disks.len() == 2, "{disks:?}");
        for disk in &disks {
            let mark = "virtualization.deckhouse.io/vmoprestoredeleted";
            let marked = json!({ "metadata": { "annotations": { mark: "restore-1" } } });
            let marked = world.patch(TestedKind::Disk, disk.name(), &marked).await?;
            world.delete(&marked).await?;
            pool.until(negate_condition(has_disk(disk))).await?;
            pool.holds(no_disk_named(disk.name()), Duration::from_secs(8)).await?;

            let mut restored = marked.value().clone();
            restored["metadata"] = json!({
                "name": disk.name(),
                "namespace": world.namespace(),
                "labels": marked.value()["metadata"]["labels"],
                "annotations": { "virtualization.deckhouse.io/vmoprestore": "restore-1" },
            });
            restored.as_object_mut().context("no disk")?.remove("status");
            let restored = world.post(TestedKind::Disk, &restored).await?;
            let owner = disk.value()["metadata"]["ownerReferences"][0]["uid"].clone();
            let name = disk.name().to_owned();
            pool.until(PoolPredicate::new("the restored disk has its owner again", move |view| {
                view.disks().iter().any(|disk| {
                    disk.name() == name && disk.value()["metadata"]["ownerReferences"][0]["uid"] == owner
                })
            }))
            .await?;
            let now = world.get(TestedKind::Disk, disk.name()).await?;
            ensure!(now.uid() == restored.uid(), "the restored disk was replaced: {now:?}");
        }
        world.operate("Start", &machine).await?;
        pool.until(ready_replicas(1).and(no_condition("ReplicaFailure")).and(pool_event("DiskRestored")))
            .await?;
        Ok(())
    });
}

fn has_disk(disk: &JsonObject) -> PoolPredicate {
    let uid = disk.uid().to_owned();
    PoolPredicate::new(format!("disk {}", disk.name()), move |view| {
        view.state.get(TestedKind::Disk, &uid).is_some()
    })
}

fn no_disk_named(name: &str) -> PoolPredicate {
    let name = name.to_owned();
    PoolPredicate::new(format!("no disk {name}"), move |view| {
        view.state.all(TestedKind::Disk).all(|disk| disk.name() != name)
    })
}
