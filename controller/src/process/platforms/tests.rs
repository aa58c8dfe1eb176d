mod migration;

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::{LeaderWorld, NAMESPACE, Verb, pool_manifest};

const SECOND: Duration = Duration::from_secs(1);
const DEFINITIONS: &str = "customresourcedefinitions";
const DVP_POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io";
const DVP_MACHINES: &str = "virtualmachines.virtualization.deckhouse.io";
const KUBEVIRT_POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const KUBEVIRT_MACHINES: &str = "virtualmachines.kubevirt.io";
const INSTALLATIONS: &str = "kubevirts.kubevirt.io";

const DVP: &[PlatformName] = &[PlatformName::Dvp];
const KUBEVIRT: &[PlatformName] = &[PlatformName::Kubevirt];
const BOTH: &[PlatformName] = &[PlatformName::Dvp, PlatformName::Kubevirt];

/// The manifest of a KubeVirt pool.
fn kubevirt_pool(name: &str, replicas: usize) -> Value {
    json!({
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "farm": name } },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "farm": name } },
                "spec": { "runStrategy": "Always", "template": { "spec": { "domain": { "devices": {} } } } },
            },
        },
    })
}

impl LeaderWorld {
    fn remove_definition(&self, name: &str) {
        self.server.delete_of_cluster(DEFINITIONS, name);
    }

    fn install_definition(&self, name: &str) {
        self.server.create(DEFINITIONS, json!({ "metadata": { "name": name } }));
    }

    fn count(&self, resource: &str) -> usize {
        self.server.all(resource).len()
    }

    /// The number of lists of pools since the last call, of any platform.
    fn lists_of_pools(&self) -> usize {
        let log = self.server.take_log();
        log.iter().filter(|call| call.is(Verb::List, "virtualmachinepools")).count()
    }
}

#[rstest]
#[case::of_pools(DVP_POOLS)]
#[case::of_machines(DVP_MACHINES)]
#[case::of_disks("virtualdisks.virtualization.deckhouse.io")]
#[case::of_attachments("virtualmachineblockdeviceattachments.virtualization.deckhouse.io")]
#[tokio::test]
async fn a_platform_starts_when_its_last_definition_appears(#[case] missing: &str) {
    let mut world = LeaderWorld::new();
    world.remove_definition(missing);
    world.server.create(DVP_POOLS, pool_manifest("web", 2));
    world.lead_all(DVP);
    world.calm().await;
    assert_eq!(world.count(DVP_MACHINES), 0);
    assert_eq!(world.lists_of_pools(), 0, "an idle platform requests nothing");
    assert_eq!(world.leader_health.synced(), Ok(()), "an idle platform is ready");
    let why = format!("dvp is waiting: the cluster has no CustomResourceDefinition {missing}");
    assert_eq!(world.leader_health.platforms(), why);
    world.install_definition(missing);
    world.advance(SECOND).await;
    assert_eq!(world.count(DVP_MACHINES), 2);
}

#[tokio::test]
async fn a_platform_whose_definition_disappears_stops_and_the_other_goes_on() {
    let mut world = LeaderWorld::new();
    world.server.create(DVP_POOLS, pool_manifest("web", 1));
    world.server.create(KUBEVIRT_POOLS, kubevirt_pool("web", 1));
    world.lead_all(BOTH);
    world.calm().await;
    assert_eq!((world.count(DVP_MACHINES), world.count(KUBEVIRT_MACHINES)), (1, 1));
    world.remove_definition("virtualmachineinstances.kubevirt.io");
    world.advance(SECOND).await;
    for pools in [DVP_POOLS, KUBEVIRT_POOLS] {
        world.server.edit(pools, "web", |pool| pool["spec"]["replicas"] = json!(2));
    }
    world.calm().await;
    assert_eq!((world.count(DVP_MACHINES), world.count(KUBEVIRT_MACHINES)), (2, 1));
    assert_eq!(world.leader_health.synced(), Ok(()));
    world.install_definition("virtualmachineinstances.kubevirt.io");
    world.advance(SECOND).await;
    assert_eq!(world.count(KUBEVIRT_MACHINES), 2);
    assert!(!world.leader_ended());
}

#[tokio::test]
async fn a_replaced_definition_drops_the_caches() {
    let mut world = LeaderWorld::new();
    world.lead_all(DVP);
    world.calm().await;
    assert_eq!(world.lists_of_pools(), 1);
    // The controller sees only the result of both changes.
    world.server.hold(DEFINITIONS);
    world.remove_definition(DVP_POOLS);
    world.install_definition(DVP_POOLS);
    world.server.release();
    world.advance(SECOND).await;
    assert_eq!(world.lists_of_pools(), 1);
    // Other definitions do not matter.
    world.install_definition("things.example.com");
    world.remove_definition(KUBEVIRT_POOLS);
    world.advance(SECOND).await;
    assert_eq!(world.lists_of_pools(), 0);
}

#[tokio::test]
async fn while_definitions_are_unknown_the_leader_is_not_synced() {
    let mut world = LeaderWorld::new();
    let is_list = |call: &crate::testing::Call| call.is(Verb::List, DEFINITIONS);
    let forbidden = crate::testing::Refusal::new(403, "Forbidden", "no role allows it");
    world.server.intercept(move |call| {
        if is_list(call) {
            crate::testing::Fate::Refuse(forbidden.clone())
        } else {
            crate::testing::Fate::Serve
        }
    });
    world.lead_all(DVP);
    world.calm().await;
    assert!(world.leader_health.synced().unwrap_err().to_string().contains("definitions"));
    world.server.behave();
    world.advance(10 * SECOND).await;
    assert_eq!(world.leader_health.synced(), Ok(()));
}

#[tokio::test]
async fn an_installation_of_another_controller_stops_reconciling_until_its_definition_is_gone() {
    let mut world = LeaderWorld::new();
    world.remove_definition(INSTALLATIONS);
    world.server.create(KUBEVIRT_POOLS, kubevirt_pool("web", 1));
    world.lead_all(KUBEVIRT);
    world.calm().await;
    assert_eq!(world.count(KUBEVIRT_MACHINES), 1);
    // When KubeVirt is installed, then the controller changes nothing.
    world.install_definition(INSTALLATIONS);
    world.server.create(
        INSTALLATIONS,
        json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} }),
    );
    world.advance(SECOND).await;
    world.server.edit(KUBEVIRT_POOLS, "web", |pool| pool["spec"]["replicas"] = json!(2));
    world.calm().await;
    assert_eq!(world.count(KUBEVIRT_MACHINES), 1);
    // Without its definition, no KubeVirt is installed.
    world.remove_definition(INSTALLATIONS);
    world.advance(SECOND).await;
    assert_eq!(world.count(KUBEVIRT_MACHINES), 2);
}

#[tokio::test]
async fn reconciling_begins_when_the_installation_switches_its_pool_loop_off() {
    let mut world = LeaderWorld::new();
    let installation = world.server.create(
        INSTALLATIONS,
        json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} }),
    );
    assert_eq!(installation["metadata"]["generation"], 1);
    world.server.create(KUBEVIRT_POOLS, kubevirt_pool("web", 1));
    world.lead_all(KUBEVIRT);
    world.calm().await;
    assert_eq!(world.count(KUBEVIRT_MACHINES), 0);
    let page = world.metrics.page();
    assert!(page.contains("vmpool_platform_state{platform=\"kubevirt\",state=\"blocked\"} 1"), "{page}");
    let why = "kubevirt is blocked: the flag pool-controller-threads of virt-controller is not set";
    assert!(world.leader_health.platforms().starts_with(why), "{}", world.leader_health.platforms());
    world.server.edit(INSTALLATIONS, "kubevirt", |installation| {
        installation["spec"] =
            json!({ "customizeComponents": { "flags": { "controller": { "pool-controller-threads": "0" } } } });
        installation["status"] = json!({ "phase": "Deployed", "observedGeneration": 2 });
    });
    world.advance(SECOND).await;
    assert_eq!(world.count(KUBEVIRT_MACHINES), 1);
    let page = world.metrics.page();
    assert!(page.contains("vmpool_platform_state{platform=\"kubevirt\",state=\"blocked\"} 0"), "{page}");
    assert!(page.contains("vmpool_platform_state{platform=\"kubevirt\",state=\"reconciling\"} 1"), "{page}");
    assert_eq!(world.leader_health.platforms(), "kubevirt is reconciling");
    world.kill_leader().await;
    assert_eq!(world.leader_health.platforms(), "standby");
    assert!(!world.metrics.page().contains("vmpool_platform_state{"));
}

/// With `--platforms=auto`, a cluster may have either platform, and KubeVirt's own controller may serve its
/// pools.
#[tokio::test]
async fn a_blocked_platform_is_idle_with_the_setting_to_change_and_the_others_go_on() {
    let mut world = LeaderWorld::new();
    let installation = json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} });
    world.server.create(INSTALLATIONS, installation);
    world.server.create(DVP_POOLS, pool_manifest("web", 1));
    world.server.create(KUBEVIRT_POOLS, kubevirt_pool("web", 1));
    world.lead_all(&PlatformName::ALL);
    world.calm().await;
    assert_eq!((world.count(DVP_MACHINES), world.count(KUBEVIRT_MACHINES)), (1, 0));
    assert_eq!(world.leader_health.synced(), Ok(()), "an idle platform is ready");
    let (detail, setting) = (
        world.leader_health.platforms(),
        "set spec.customizeComponents.flags.controller.pool-controller-threads to \"0\"",
    );
    assert!(detail.contains("dvp is reconciling") && detail.contains(setting), "{detail}");
    let page = world.metrics.page();
    for state in ["platform=\"dvp\",state=\"reconciling\"", "platform=\"kubevirt\",state=\"blocked\""] {
        assert!(page.contains(&format!("vmpool_platform_state{{{state}}} 1")), "{page}");
    }
    let events = world.server.all("events");
    let blocked = events.iter().find(|event| event["reason"] == "OtherControllerActive").unwrap();
    assert!(blocked["message"].as_str().unwrap().contains(setting), "{blocked:#}");
}

#[tokio::test]
async fn each_blocked_pool_gets_one_event() {
    let mut world = LeaderWorld::new();
    let installation = json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} });
    world.server.create(INSTALLATIONS, installation);
    world.server.create(KUBEVIRT_POOLS, kubevirt_pool("web", 1));
    world.lead_all(KUBEVIRT);
    world.calm().await;
    // When pools change and appear, and the reason changes, then only new pools get an event.
    world.server.edit(KUBEVIRT_POOLS, "web", |pool| pool["spec"]["replicas"] = json!(2));
    world.server.create(KUBEVIRT_POOLS, kubevirt_pool("new", 1));
    world.server.edit(INSTALLATIONS, "kubevirt", |installation| {
        installation["spec"] =
            json!({ "customizeComponents": { "flags": { "controller": { "pool-controller-threads": "3" } } } });
    });
    world.calm().await;
    let events = world.server.all("events");
    let mut pools: Vec<&str> =
        events.iter().filter_map(|event| event["involvedObject"]["name"].as_str()).collect();
    pools.sort_unstable();
    assert_eq!(pools, ["new", "web"], "{events:#?}");
    assert!(events.iter().all(|event| event["reason"] == "OtherControllerActive"), "{events:#?}");
    assert!(events[0]["message"].as_str().unwrap().contains("pool-controller-threads"), "{events:#?}");
}
