//! Foreign objects that look as if they belonged to a pool.

use std::sync::Arc;

use serde_json::json;
use vmpool_api::annotations;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::DEADLINE;
use vmpool_e2e::world::condition::{disk_count, machine_phase, ready_replicas};
use vmpool_engine::Uid;
use vmpool_engine::scale_up::names::Namer;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::error::Error;
use vmpool_test_cluster::poll;

#[test]
fn a_foreign_disk_named_like_a_template_is_not_changed() {
    define_scenario("a foreign disk named like a template is left alone").run(async |world| {
        world.foreign_disk("root", &json!({})).await?;
        let pool = world.pool("web").replicas(2).ready().await?;
        for machine in pool.machines().await? {
            assert!(machine.disk_references().all(|disk| disk != "root"));
        }
        pool.scale(0).await?;
        pool.until(ready_replicas(0)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_machine_name_whose_disk_name_is_taken_is_skipped() {
    define_scenario("a name whose disk name is taken is skipped").run(async |world| {
        let pool = world.pool("web").create().await?;
        pool.until(ready_replicas(0)).await?;
        // Given a disk with the name of the first machine's disk,
        let namer = Namer::new(&Arc::from(pool.name()), &Uid::from(pool.uid()));
        let (first, second) = (namer.name(0), namer.name(1));
        let controller = world.controller()?;
        controller.kill();
        world.foreign_disk(&format!("{first}-root"), &json!({})).await?;
        // and a controller that knows this disk,
        controller.restart().await?;
        // when the pool is scaled up, the machine gets the next name.
        pool.scale(1).await?;
        pool.until(ready_replicas(1)).await?;
        assert_eq!(pool.machine(0).await?.name(), second);
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_foreign_disk_with_the_name_of_a_machines_disk_is_not_changed() {
    define_scenario("a foreign disk with the name of a machine's disk is left alone").run(async |world| {
        // Given a stopped machine whose disk a user has deleted and replaced by a foreign disk with the same
        // name, while the controller was paused,
        let pool = world.pool("web").replicas(1).ready().await?;
        let machine = pool.machine(0).await?;
        let wanted = format!("{}-root", machine.name());
        world.operate("Stop", &machine).await?;
        pool.until(machine_phase(&machine, "Stopped")).await?;
        let controller = world.controller()?;
        controller.pause()?;
        let disk = world.get(TestedKind::Disk, &wanted).await?;
        world.delete(&disk).await?;
        poll::poll_until(
            || format!("{wanted} is gone"),
            DEADLINE,
            async || {
                let found = world.api(TestedKind::Disk).get_opt(&wanted).await;
                let found = found.map_err(Error::api(format!("reading {wanted}")))?;
                Ok(found.map_or(Ok(()), |_| Err(format!("{wanted} exists"))))
            },
        )
        .await?;
        world.foreign_disk(&wanted, &json!({})).await?;
        // when the controller resumes,
        controller.resume()?;
        // then the machine gets a disk with another name, and the foreign one is not changed.
        pool.until(disk_count(1)).await?;
        world.operate("Start", &machine).await?;
        pool.until(ready_replicas(1)).await?;
        let now = world.get(TestedKind::Machine, machine.name()).await?;
        assert_eq!(now.uid(), machine.uid());
        let other = format!("{wanted}-2");
        assert_eq!(now.disk_references().collect::<Vec<_>>(), [other.as_str()]);
        assert_eq!(now.annotation(annotations::DISKS), Some(json!({ "root": other }).to_string().as_str()));
        Ok::<_, anyhow::Error>(())
    });
}
