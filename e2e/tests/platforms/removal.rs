//! Targeted removal of protected machines, and repeated requests.

use anyhow::{Context, ensure};
use http::StatusCode;
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{
    has_machine, live_machine_count, negate_condition, pool_event, ready_replicas,
};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{expect, from_now, protect};

/// A client repeats a removal after a new leader has filled the pool up again. On KubeVirt, another machine
/// has the name by then.
#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_repeated_removal_by_name_removes_no_other_machine(#[case] platform: TestedPlatform) {
    on(platform, "a repeated removal by name removes no other machine", async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        let machine = pool.machine(0).await?;
        let accepted = pool.removal().target(&machine).send().await?;
        ensure!(accepted.code == 201, "{accepted}");
        pool.until(negate_condition(has_machine(&machine)).and(ready_replicas(2))).await?;
        world.controller()?.kill();
        world.controller()?.restart().await?;
        pool.scale(3).await?;
        pool.until(ready_replicas(3)).await?;

        let machines = pool.machines().await?;
        let successor = machines.iter().find(|other| other.name() == machine.name());
        ensure!(successor.is_some() == (platform == TestedPlatform::KubeVirt), "the names are {machines:?}");
        let repeated = pool.removal().named(machine.name()).send().await?;
        ensure!((400..500).contains(&repeated.code), "{repeated}");
        if let Some(successor) = successor {
            for uid in [machine.uid(), successor.uid()] {
                ensure!(repeated.message().contains(uid), "{uid} is not in {repeated}");
            }
        }
        pool.holds(ready_replicas(3), SETTLE).await?;
        let after = pool.machines().await?;
        ensure!(machines.iter().all(|one| after.iter().any(|other| other.uid() == one.uid())), "{after:?}");
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_removal_that_names_protected_machines_is_refused_without_force(#[case] platform: TestedPlatform) {
    on(platform, "a removal of protected machines is refused without force", async |world| {
        let pool = world.pool("web").replicas(4).ready().await?;
        let editor = world.user("ed", &["vmpool-editor"]).await?;
        let admin = world.user("ada", &["vmpool-admin"]).await?;
        let machines = pool.machines().await?;
        let until = from_now(3600);
        for machine in &machines[1..3] {
            protect(world, machine, &until).await?;
        }

        // All or nothing, with one cause for each protected target.
        let removal =
            || machines[..3].iter().fold(pool.removal(), vmpool_e2e::world::RemovalRequestBuilder::target);
        let refused = removal().by(&editor).send().await?;
        expect(&refused, StatusCode::CONFLICT, "Conflict", &[machines[1].name(), "1 more", "force: true"])?;
        let causes = refused.body["details"]["causes"].as_array().context("no causes")?;
        ensure!(causes.len() == 2, "{refused}");
        for (cause, place) in causes.iter().zip([1, 2]) {
            ensure!(cause["reason"] == "MachineProtected", "{refused}");
            ensure!(cause["field"] == format!("targets[{place}]"), "{refused}");
            let message = cause["message"].as_str().unwrap_or_default();
            ensure!(message.contains(&until) && message.contains(machines[place].name()), "{refused}");
        }
        let dry = removal().dry_run_by_body().by(&editor).send().await?;
        expect(&dry, StatusCode::CONFLICT, "Conflict", &[])?;
        pool.holds(ready_replicas(4), SETTLE).await?;

        // Force needs a right of its own, and leaves an event.
        let force = || removal().with("force", json!(true));
        let forbidden = force().by(&editor).send().await?;
        expect(&forbidden, StatusCode::FORBIDDEN, "Forbidden", &["force", "scaledownwith"])?;
        pool.holds(ready_replicas(4), SETTLE).await?;
        let accepted = force().by(&admin).send().await?;
        ensure!(accepted.code == 201, "{accepted}");
        pool.until(live_machine_count(1).and(ready_replicas(1)).and(pool_event("ProtectionOverridden")))
            .await?;
        let events = world.recorder().state();
        let events = events.all(vmpool_invariants::object::TestedKind::Event);
        let forced: Vec<&str> = events
            .filter(|event| event.text("/reason") == "ProtectionOverridden")
            .map(|event| event.text("/message"))
            .collect();
        let [note] = forced[..] else { anyhow::bail!("one event, not {forced:?}") };
        ensure!(note.contains(&world.user_name("ada")) && note.contains(machines[1].name()), "{note}");
        ensure!(pool.machine(0).await?.uid() == machines[3].uid(), "another machine was removed");
        Ok(())
    });
}
