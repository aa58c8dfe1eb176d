use serde_json::json;

use super::*;
use crate::process::options::PlatformName;
use crate::settings::ControllerSettings;
use crate::testing::{Call, Fate, LeaderWorld, Refusal, pool_manifest};

const REVIEWS: &str = "selfsubjectaccessreviews";
const DVP_POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io";
const DVP_MACHINES: &str = "virtualmachines.virtualization.deckhouse.io";

/// A world whose leader finds the platforms itself, with a pool of DVP.
fn world_with_auto() -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.settings = ControllerSettings { skips_forbidden_platforms: true, ..world.settings };
    world.server.create(DVP_POOLS, pool_manifest("web", 1));
    world
}

impl LeaderWorld {
    /// Grants the rights for pools of these groups only.
    fn permit_only(&self, groups: &'static [&'static str]) {
        self.server.intercept(move |call: &Call| {
            if call.resource != REVIEWS {
                return Fate::Serve;
            }
            let asked = &call.body["spec"]["resourceAttributes"];
            assert_eq!((&asked["verb"], &asked["resource"]), (&json!("list"), &json!("virtualmachinepools")));
            assert_eq!(asked.get("namespace"), None, "the leader serves all namespaces");
            let allowed = groups.iter().any(|group| asked["group"] == *group);
            Fate::Respond(201, json!({ "status": { "allowed": allowed } }))
        });
    }

    /// The calls of the resource in the log.
    fn calls_of(&self, resource: &str) -> Vec<Call> {
        self.server.take_log().into_iter().filter(|call| call.resource == resource).collect()
    }
}

#[tokio::test]
async fn a_platform_without_rights_is_idle_and_the_leader_is_ready() {
    let mut world = world_with_auto();
    world.permit_only(&["virtualization.deckhouse.io"]);
    world.lead_all(&PlatformName::ALL);
    world.calm().await;
    assert_eq!(world.server.all(DVP_MACHINES).len(), 1);
    assert_eq!(world.leader_health.synced(), Ok(()));
    let detail = world.leader_health.platforms();
    assert!(detail.contains("dvp is reconciling"), "{detail}");
    for part in [
        "kubevirt is forbidden: the account of the controller may not list virtualmachinepools.pool.kubevirt.io",
        "platforms.kubevirt.enabled",
        "--platforms",
    ] {
        assert!(detail.contains(part), "{detail}");
    }
    let page = world.metrics.page();
    assert!(page.contains("vmpool_platform_state{platform=\"kubevirt\",state=\"forbidden\"} 1"), "{page}");
    let lists = world.server.take_log();
    assert!(lists.iter().all(|call| call.group != "pool.kubevirt.io"), "{lists:?}");
    world.kill_leader().await;
    assert_eq!(world.leader_health.platforms(), "standby");
}

#[tokio::test]
async fn a_platform_is_reconciled_once_its_rights_are_granted() {
    let mut world = world_with_auto();
    world.permit_only(&["virtualization.deckhouse.io"]);
    world.lead_all(&PlatformName::ALL);
    world.calm().await;
    world.permit_only(&["virtualization.deckhouse.io", "pool.kubevirt.io"]);
    world.advance(PAUSE).await;
    world.calm().await;
    assert_eq!(world.leader_health.platforms(), "dvp is reconciling; kubevirt is reconciling");
    assert_eq!(world.leader_health.synced(), Ok(()));
    assert!(!world.leader_ended());
}

#[tokio::test]
async fn a_leader_without_rights_stops() {
    let mut world = world_with_auto();
    world.permit_only(&[]);
    world.lead_all(&PlatformName::ALL);
    world.calm().await;
    assert!(!world.leader_ended());
    world.stop.cancel();
    world.calm().await;
    assert!(world.leader_ended());
}

#[tokio::test]
async fn a_platform_with_rights_is_reconciled() {
    let mut world = world_with_auto();
    world.permit_only(&["virtualization.deckhouse.io", "pool.kubevirt.io"]);
    world.lead_all(&PlatformName::ALL);
    world.calm().await;
    assert_eq!(world.leader_health.platforms(), "dvp is reconciling; kubevirt is reconciling");
}

#[tokio::test]
async fn a_platform_whose_rights_are_unknown_is_reconciled() {
    let mut world = world_with_auto();
    let refusal = Refusal::new(500, "InternalError", "no answer");
    world.server.intercept(move |call: &Call| {
        if call.resource == REVIEWS { Fate::Refuse(refusal.clone()) } else { Fate::Serve }
    });
    world.lead_all(&PlatformName::ALL);
    world.calm().await;
    assert_eq!(world.leader_health.platforms(), "dvp is reconciling; kubevirt is reconciling");
}

#[tokio::test]
async fn a_named_platform_is_reconciled_without_a_review() {
    let mut world = LeaderWorld::new();
    world.lead_all(&PlatformName::ALL);
    world.calm().await;
    assert_eq!(world.calls_of(REVIEWS).len(), 0);
}
