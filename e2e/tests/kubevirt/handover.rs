//! Two controllers, of which one leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use serde_json::json;
use vmpool_installation::fault_proxy::{DropPoint, RequestLine};
use vmpool_installation::programs::{ControllerOptions, ControllerProgram};
use vmpool_test_cluster::control_plane::AuditEntry;

use crate::pools::{bare, memory, spec};
use crate::with_namespace;
use crate::world::{INSTALLED, KubeVirtWorld, accounts, behind_proxy, run_with_options, text};

async fn until_leads(world: &KubeVirtWorld<'_>, controller: &ControllerProgram) -> Result<()> {
    let leads = async || Ok((controller.leads().await == Some(true)).then_some(()));
    world.until(&format!("{} leads", controller.identity()), leads).await
}

/// The machines that the controllers created, each once.
fn created_once(world: &KubeVirtWorld<'_>, pool: &str, expected: usize) -> Result<()> {
    let mut created = world.requested(pool, "create", "virtualmachines")?;
    let count = created.len();
    created.sort();
    created.dedup();
    ensure!(created.len() == count && count == expected, "{created:?}");
    Ok(())
}

#[test]
fn a_new_leader_continues_what_the_former_one_began() {
    let namespace = "kubevirt-handover";
    with_namespace(namespace, async |place| {
        let _others = INSTALLED.read().await;
        let accounts = accounts(place.cluster).await?;
        let first = ControllerOptions::short_lease(namespace, "one");
        let (proxy, first) = behind_proxy(place.cluster, first).await?;
        run_with_options(accounts, place, first, async |world| {
            until_leads(&world, &world.controller).await?;
            let mut second = ControllerOptions::short_lease(namespace, "two");
            second.extra.push("--platforms=kubevirt".to_owned());
            let standby = ControllerProgram::start(place.cluster, second).await?;
            // When the leader stops responding while it creates machines, then the standby creates the rest.
            let (leader, paused) = (world.controller.clone(), Arc::new(AtomicBool::new(false)));
            let flag = paused.clone();
            let creates =
                |request: &RequestLine| request.method == "POST" && request.path.contains("/virtualmachines");
            proxy.trap(creates, 4, DropPoint::After, move || {
                flag.store(leader.pause().is_ok(), Ordering::SeqCst);
            });
            world.create("p", &spec(12)).await?;
            world
                .until("the leader is paused", async || Ok(paused.load(Ordering::SeqCst).then_some(())))
                .await?;
            proxy.disarm();
            until_leads(&world, &standby).await?;
            let all: Vec<usize> = (0..12).collect();
            let machines = world.until_ordinals("p", &all).await?;
            created_once(&world, "p", 12)?;
            // When the former leader responds again, then it changes nothing.
            world.is_settled().await?;
            let writes = world.writes()?.len();
            world.controller.resume()?;
            world.is_settled().await?;
            // It may have been paused while it sent a create, which finds that its successor has created the
            // machine.
            let after: Vec<_> = world.writes()?.split_off(writes);
            let is_late_create = |entry: &AuditEntry| entry.verb == "create" && entry.code == 409;
            ensure!(after.iter().all(is_late_create), "{after:#?}");
            ensure!(world.controller.leads().await != Some(true), "there are two leaders");
            // When the leader is killed during a scale-in and a rollout, then the other one completes both.
            world.create("q", &bare("q", 3)).await?;
            world.until_ordinals("q", &[0, 1, 2]).await?;
            world.patch("p", &json!({ "spec": { "replicas": 4 } })).await?;
            let mut change = memory("2Gi");
            change["spec"]["revisionHistoryLimit"] = json!(0);
            world.patch("q", &change).await?;
            standby.kill();
            until_leads(&world, &world.controller).await?;
            let left = world.until_ordinals("p", &[0, 1, 2, 3]).await?;
            for (name, machine) in &left {
                ensure!(text(machine, "/metadata/uid") == text(&machines[name], "/metadata/uid"), "{name}");
            }
            world.until_memory(&["q-0", "q-1", "q-2"], "2Gi").await?;
            let mut deleted = world.requested("p", "delete", "virtualmachines")?;
            deleted.sort();
            deleted.dedup();
            ensure!(deleted.len() == 8, "{deleted:?}");
            // The former revision is deleted when no machine has it anymore.
            let pruned = async || {
                let revisions = world.all("apps/v1", "ControllerRevision").await?;
                Ok((!revisions.contains_key("q-1")).then_some(()))
            };
            world.until("the former revision of q is deleted", pruned).await?;
            world.is_settled().await
        })
        .await
    });
}
