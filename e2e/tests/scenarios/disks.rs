//! Disks that outlive their machines: handed on, kept, collected, grown, added and taken away.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use vmpool_api::{annotations, labels};
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{
    Condition, View, disks, event, live_members, members, no_condition, ready_replicas,
};
use vmpool_e2e::world::{Pool, SETTLE};
use vmpool_invariants::object::{Kind, Object};

const MOUNT_LOG: &str = "simulator.vmpool.dev/mount-log";

/// The disks of a template.
fn of_template<'a>(view: View<'a>, template: &str) -> Vec<&'a Object> {
    view.disks().into_iter().filter(|disk| disk.label(labels::DISK_TEMPLATE) == Some(template)).collect()
}

/// So many disks of a template have a stamp that says since when they are free.
fn stamped(template: &'static str, count: usize) -> Condition {
    Condition::new(format!("{count} free disks of {template}"), move |view| {
        of_template(view, template)
            .iter()
            .filter(|disk| disk.annotation(annotations::FREE_SINCE).is_some())
            .count()
            == count
    })
}

/// So many disks of a template.
fn filling(template: &'static str, count: usize) -> Condition {
    Condition::new(format!("{count} disks of {template}"), move |view| {
        of_template(view, template).len() == count
    })
}

async fn disks_of(pool: &Pool<'_>, template: &str) -> anyhow::Result<Vec<Object>> {
    let disks = pool.disks().await?;
    Ok(disks.into_iter().filter(|disk| disk.label(labels::DISK_TEMPLATE) == Some(template)).collect())
}

fn uids(objects: &[Object]) -> BTreeSet<&str> {
    objects.iter().map(Object::uid).collect()
}

/// The machines that have run on a disk.
fn log(disk: &Object) -> Vec<&str> {
    disk.annotation(MOUNT_LOG).unwrap_or_default().split(',').filter(|uid| !uid.is_empty()).collect()
}

#[test]
fn a_disk_goes_from_machine_to_machine_with_its_data() {
    scenario("a disk goes from machine to machine with its data").run(async |world| {
        // Given a pool whose machines have a cache that outlives them,
        let pool = world.pool("web").replicas(2).disk("root").retained("cache", 0, "10m").ready().await?;
        let caches = disks_of(&pool, "cache").await?;
        let first: BTreeSet<String> =
            pool.machines().await?.iter().map(|machine| machine.uid().to_owned()).collect();
        // when all machines leave,
        pool.scale(0).await?;
        pool.until(members(0).and(disks(2)).and(stamped("cache", 2))).await?;
        // then the caches stay as they are,
        pool.holds(disks(2), SETTLE).await?;
        // and serve the machines that come later, one each.
        pool.scale(2).await?;
        pool.until(ready_replicas(2).and(filling("cache", 2)).and(stamped("cache", 0))).await?;
        let again = disks_of(&pool, "cache").await?;
        assert_eq!(uids(&again), uids(&caches), "the same two disks");
        let second: BTreeSet<String> =
            pool.machines().await?.iter().map(|machine| machine.uid().to_owned()).collect();
        assert!(first.is_disjoint(&second), "the machines are new");
        for disk in &again {
            let log = log(disk);
            assert_eq!(log.len(), 2, "{} was mounted by {log:?}", disk.name());
            assert!(first.contains(log[0]) && second.contains(log[1]), "{log:?}");
        }
        pool.until(event("DiskReused")).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_idle_pool_collects_old_disks_and_keeps_the_newest() {
    scenario("an idle pool collects old disks and keeps the newest").run(async |world| {
        let pool = world.pool("web").replicas(3).disk("root").retained("cache", 1, "2s").ready().await?;
        pool.scale(2).await?;
        pool.until(stamped("cache", 1)).await?;
        let oldest = disks_of(&pool, "cache")
            .await?
            .into_iter()
            .find(|disk| disk.annotation(annotations::FREE_SINCE).is_some());
        let oldest = oldest.expect("it was there a moment ago");
        // The stamps have whole seconds: the next disks are free later than this one.
        pool.holds(live_members(2), Duration::from_millis(1200)).await?;
        pool.scale(0).await?;
        // Nobody touches the pool, and yet the disks beyond the one that is kept go,
        pool.until_within(filling("cache", 1), Duration::from_secs(90)).await?;
        // the newest of them stays,
        pool.holds(filling("cache", 1), SETTLE).await?;
        let kept = disks_of(&pool, "cache").await?;
        assert!(!uids(&kept).contains(oldest.uid()), "{} was the oldest", oldest.name());
        // and goes on to the next machine.
        pool.scale(1).await?;
        pool.until(ready_replicas(1)).await?;
        assert_eq!(uids(&disks_of(&pool, "cache").await?), uids(&kept));
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_leader_that_dies_in_the_middle_hands_no_disk_out_twice() {
    scenario("a leader that dies in the middle hands no disk out twice").controllers(2).run(async |world| {
        let pool = world.pool("web").replicas(6).disk("root").retained("cache", 0, "10m").ready().await?;
        pool.scale(0).await?;
        pool.until(members(0).and(stamped("cache", 6))).await?;
        // When the leader dies while it hands the disks out,
        let claimed = Condition::new("a disk that is claimed", |view| {
            view.disks().iter().any(|disk| disk.annotation(annotations::CLAIMED_BY).is_some())
        });
        pool.scale(6).await?;
        pool.until(claimed).await?;
        pool.allow_in_flight(6);
        for controller in world.controllers() {
            controller.kill();
        }
        world.add_controller().await?;
        // then every machine gets one of them, and none is made. (No disk on two machines: I3.)
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
    });
}

#[test]
fn a_disk_that_somebody_attached_elsewhere_is_not_free() {
    scenario("a disk that somebody attached elsewhere is not free").run(async |world| {
        let pool = world.pool("web").replicas(1).disk("root").retained("cache", 0, "1s").ready().await?;
        let cache = disks_of(&pool, "cache").await?.remove(0);
        // Given a machine of somebody else that refers to the disk,
        let visitor = world.foreign_machine_on("visitor", &cache).await?;
        // when the pool's machine leaves,
        pool.scale(0).await?;
        pool.until(members(0)).await?;
        // then the disk is neither collected nor handed on.
        pool.holds(filling("cache", 1).and(stamped("cache", 0)), Duration::from_secs(4)).await?;
        pool.scale(1).await?;
        pool.until(ready_replicas(1).and(filling("cache", 2))).await?;
        // Once it is, it is like any other.
        world.delete(&visitor).await?;
        pool.until_within(filling("cache", 1), Duration::from_mins(1)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

fn size(template: &'static str, size: &'static str) -> Condition {
    Condition::new(format!("all disks of {template} ask for {size}"), move |view| {
        let disks = of_template(view, template);
        !disks.is_empty() && disks.iter().all(|disk| disk.text("/spec/persistentVolumeClaim/size") == size)
    })
}

#[test]
fn disks_grow_with_their_template_and_never_shrink() {
    scenario("disks grow with their template and never shrink").run(async |world| {
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
        pool.until(size("root", "1Gi").and(size("cache", "1Gi")).and(event("DiskResized"))).await?;
        pool.edit(&templates("512Mi")).await?;
        pool.holds(size("root", "1Gi").and(size("cache", "1Gi")), SETTLE).await?;
        pool.until(ready_replicas(2)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// All live members refer to so many disks and run.
fn devices(count: usize) -> Condition {
    Condition::new(format!("running machines with {count} disks each"), move |view| {
        view.live().all(|machine| machine.is_running() && machine.disk_references().count() == count)
    })
}

#[test]
fn a_disk_template_that_comes_and_goes_reaches_running_machines() {
    scenario("a disk template that comes and goes reaches running machines").run(async |world| {
        let pool = world.pool("web").replicas(2).disk("root").ready().await?;
        let before = pool.machines().await?;
        // When a template is added, every machine gets a disk of it, and none restarts,
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
        // and when it is taken away, they lose it, and the disks go, too.
        pool.edit_templates(|refs, templates| {
            refs.retain(|device| device["name"] != "data");
            templates.retain(|template| template["name"] != "data");
        })
        .await?;
        pool.until_within(devices(1).and(filling("data", 0)), Duration::from_secs(90)).await?;
        pool.until(ready_replicas(2)).await?;
        assert_eq!(uids(&pool.machines().await?), uids(&before), "nobody was recreated");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_failed_disk_is_replaced_when_its_machine_does_not_run() {
    scenario("a failed disk is replaced when its machine does not run").run(async |world| {
        // Given a platform that fails to make the first disk of all,
        world.knob("fail-provisioning", "1").await?;
        let pool = world.pool("web").replicas(1).retained("cache", 0, "10m").create().await?;
        // then the machine gets another one and runs.
        pool.until_within(ready_replicas(1), Duration::from_secs(90)).await?;
        let machine = pool.machine(0).await?;
        let used: Vec<&str> = machine.disk_references().collect();
        let disk = world.get(Kind::Disk, used[0]).await?;
        assert_ne!(disk.phase(), "Failed");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_free_disk_that_the_platform_refuses_without_naming_it_is_left_alone() {
    scenario("a free disk that the platform refuses without naming it is left alone").run(async |world| {
        // Given a free disk, and a platform that cannot start a machine with it,
        let pool = world.pool("web").replicas(1).disk("root").retained("cache", 0, "10m").ready().await?;
        pool.scale(0).await?;
        pool.until(members(0).and(stamped("cache", 1))).await?;
        let cache = disks_of(&pool, "cache").await?.remove(0);
        let message = "a disk of the virtual machine is on node n1, which cannot run it";
        let refusal = world.refuse_machines_on(cache.name(), message).await?;
        // when a machine is wanted, then it gets a new disk after a few refusals,
        pool.scale(1).await?;
        pool.until_within(ready_replicas(1).and(filling("cache", 2)), Duration::from_secs(90)).await?;
        // and the first one is free again.
        pool.until_within(stamped("cache", 1), Duration::from_secs(90)).await?;
        refusal.lift().await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_failed_ephemeral_disk_is_replaced_and_told() {
    scenario("a failed ephemeral disk is replaced and told").run(async |world| {
        // Given a platform that fails to make the first two disks,
        world.knob("fail-provisioning", "2").await?;
        let pool = world.pool("web").replicas(1).disk("root").create().await?;
        // then the pool says which disk of which machine failed,
        let told = Condition::new("a failed disk that is told", |view| {
            let failure = view.pool().and_then(|pool| pool.condition("ReplicaFailure"));
            let message = failure.and_then(|failure| failure["message"].as_str()).unwrap_or_default();
            view.members().iter().any(|machine| message.contains(machine.name())) && message.contains("-root")
        });
        pool.sees(told).await?;
        // and the machine gets another one, and runs; what failed does not stay.
        let alone = Condition::new("one disk, which has not failed", |view| {
            let disks = view.disks();
            disks.len() == 1 && disks.iter().all(|disk| disk.phase() == "Ready")
        });
        pool.until_within(ready_replicas(1).and(alone), Duration::from_mins(2)).await?;
        pool.until(no_condition("ReplicaFailure")).await?;
        Ok::<_, anyhow::Error>(())
    });
}
