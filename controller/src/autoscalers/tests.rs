//! Autoscalers, with one leader, on a model of the API server.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::annotations::WAITING_CLAIMS;
use vmpool_autoscaler::waiting::{WaitingClaimKey, WaitingClaims};
use vmpool_engine::protection::{UNTIL, time_after, timestamp_text};

use crate::process::options::PlatformName;
use crate::testing::{LeaderWorld, NAMESPACE, machine_names, pool_manifest};

mod hostile;
mod load;
mod pool_facts;
mod races;
mod records;

const POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io";
const KUBEVIRT_POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const MACHINES: &str = "virtualmachines.virtualization.deckhouse.io";
const AUTOSCALERS: &str = "poolautoscalers.vmpool.dev";
const HPAS: &str = "horizontalpodautoscalers.autoscaling";

const SECOND: Duration = Duration::from_secs(1);

fn autoscaler(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "poolRef": {
                "apiVersion": "virtualization.deckhouse.io/v1alpha2",
                "kind": "VirtualMachinePool",
                "name": "web",
            },
            "maxReplicas": 10,
            "scaleDown": { "delay": "60s" },
        },
    });
    json_patch::merge(&mut object["spec"], spec);
    object
}

/// A world with pool `web`, an autoscaler of it, and a leader.
async fn world(replicas: usize, spec: Value) -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.settings.autoscales = true;
    world.server.create(POOLS, pool_manifest("web", replicas));
    world.server.create(AUTOSCALERS, autoscaler("web", &spec));
    world.lead_all(&[PlatformName::Dvp]);
    world.run().await;
    world
}

impl LeaderWorld {
    /// The controller creates machines, and the platform starts them.
    async fn run(&self) {
        self.calm().await;
        self.run_machines();
        self.calm().await;
    }

    fn replicas(&self) -> Value {
        self.server.get(POOLS, "web").unwrap()["spec"]["replicas"].clone()
    }

    /// A client protects a machine for this time.
    fn protect(&self, machine: &str, time: Duration) {
        let until = timestamp_text(time_after(self.env.now(), time));
        self.server
            .edit(MACHINES, machine, |machine| machine["metadata"]["annotations"][UNTIL] = json!(until));
    }

    /// A claim found no machine.
    fn wait_for_machine(&self, id: &str) {
        let mut waiting = WaitingClaims::default();
        waiting.record(WaitingClaimKey::new("ann", id), self.env.now().as_second());
        let text = waiting.text();
        self.server.edit(POOLS, "web", |pool| {
            pool["metadata"]["annotations"][WAITING_CLAIMS] = json!(text);
        });
    }

    fn autoscaler_status(&self, name: &str) -> Value {
        self.server.get(AUTOSCALERS, name).unwrap()["status"].clone()
    }

    /// Status and reason of a condition of an autoscaler.
    fn autoscaler_condition(&self, name: &str, kind: &str) -> (String, String) {
        let status = self.autoscaler_status(name);
        let conditions = status["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }
}

#[tokio::test]
async fn free_machines_are_created_at_once() {
    let world = world(0, json!({ "free": 2 })).await;
    assert_eq!(world.replicas(), 2);
    let status = world.autoscaler_status("web");
    assert_eq!((&status["replicas"], &status["desiredReplicas"]), (&json!(2), &json!(2)));
    assert_eq!(world.autoscaler_condition("web", "Active").0, "True");
}

#[tokio::test]
async fn busy_machines_raise_the_replicas_and_never_leave() {
    let world = world(2, json!({ "free": 1, "maxReplicas": 3 })).await;
    for machine in machine_names(&world.machines()) {
        world.protect(&machine, Duration::from_mins(30));
    }
    world.run().await;
    assert_eq!(world.replicas(), 3, "two busy machines and a free one");
    world.server.edit(AUTOSCALERS, "web", |autoscaler| autoscaler["spec"]["maxReplicas"] = json!(1));
    world.advance(2 * Duration::from_mins(1)).await;
    assert_eq!(world.replicas(), 2, "busy machines stay beyond maxReplicas");
}

#[tokio::test]
async fn standby_machines_are_counted_apart() {
    let world = world(2, json!({ "free": 2 })).await;
    let name = machine_names(&world.machines()).remove(0);
    world.server.edit(MACHINES, &name, |machine| {
        machine["metadata"]["labels"]["vmpool.dev/standby"] = json!("warming");
    });
    world.run().await;
    let status = world.autoscaler_status("web");
    assert_eq!((&status["standby"], &status["free"]), (&json!(1), &json!(2)), "{status}");
}

#[tokio::test]
async fn idle_machines_leave_after_the_delay() {
    let world = world(4, json!({ "free": 1 })).await;
    world.advance(30 * SECOND).await;
    assert_eq!(world.replicas(), 4, "the delay has not passed");
    world.advance(40 * SECOND).await;
    assert_eq!(world.replicas(), 1);
    assert!(world.autoscaler_status("web")["lastScaleReason"].as_str().unwrap().contains("1 free wanted"));
}

#[tokio::test]
async fn a_waiting_claim_raises_from_zero_and_its_end_lowers() {
    let world = world(0, json!({ "free": 0 })).await;
    assert_eq!(world.replicas(), 0);
    world.wait_for_machine("job-1");
    world.calm().await;
    assert_eq!(world.replicas(), 1);
    world.advance(2 * Duration::from_mins(1)).await;
    assert_eq!(world.replicas(), 0, "the entry has ended, and then the delay has passed");
}

#[tokio::test]
async fn a_schedule_raises_at_its_start() {
    let mut world = LeaderWorld::new();
    world.settings.autoscales = true;
    let start = time_after(world.env.now(), Duration::from_mins(10));
    let start = start.strftime("%M %H %d %m *").to_string();
    let schedule = json!([{ "name": "soon", "start": start, "duration": "30m", "minReplicas": 3 }]);
    world.server.create(POOLS, pool_manifest("web", 0));
    world.server.create(AUTOSCALERS, autoscaler("web", &json!({ "schedules": schedule })));
    world.lead_all(&[PlatformName::Dvp]);
    world.run().await;
    assert_eq!(world.replicas(), 0);
    world.advance(Duration::from_mins(11)).await;
    assert_eq!(world.replicas(), 3);
    assert_eq!(world.autoscaler_status("web")["activeSchedule"], "soon");
    world.advance(Duration::from_mins(35)).await;
    assert_eq!(world.replicas(), 0);
}

#[rstest]
#[case::a_paused_autoscaler(AUTOSCALERS, "Paused")]
#[tokio::test]
async fn nothing_is_written_during_a_pause(#[case] paused: &str, #[case] reason: &str) {
    let world = world(0, json!({ "free": 0 })).await;
    world.server.edit(paused, "web", |object| {
        object["spec"]["paused"] = json!(true);
        object["spec"]["free"] = json!(3);
    });
    world.advance(10 * SECOND).await;
    assert_eq!(world.replicas(), 0);
    assert_eq!(world.autoscaler_condition("web", "Active"), ("False".to_owned(), reason.to_owned()));
}

#[tokio::test]
async fn beside_an_hpa_and_an_older_autoscaler_nothing_is_written() {
    let mut world = LeaderWorld::new();
    world.settings.autoscales = true;
    world.server.create(POOLS, pool_manifest("web", 0));
    let target = json!({ "apiVersion": "virtualization.deckhouse.io/v1", "kind": "VirtualMachinePool", "name": "web" });
    let metadata = json!({ "name": "hpa", "namespace": NAMESPACE });
    world.server.create(
        HPAS,
        json!({ "metadata": metadata, "spec": { "maxReplicas": 3, "scaleTargetRef": target } }),
    );
    world.server.create(AUTOSCALERS, autoscaler("first", &json!({ "free": 1 })));
    world.lead_all(&[PlatformName::Dvp]);
    world.run().await;
    assert_eq!(world.replicas(), 0);
    let conflict = |name| world.autoscaler_condition(name, "Conflicting");
    assert_eq!(conflict("first"), ("True".to_owned(), "HorizontalPodAutoscaler".to_owned()));

    world.server.delete(HPAS, "hpa");
    world.advance(2 * SECOND).await;
    world.server.create(AUTOSCALERS, autoscaler("second", &json!({ "free": 5 })));
    world.advance(10 * SECOND).await;
    assert_eq!(world.replicas(), 1, "the older autoscaler scales the pool");
    let conflict = |name| world.autoscaler_condition(name, "Conflicting");
    assert_eq!(conflict("first").0, "False");
    assert_eq!(conflict("second"), ("True".to_owned(), "OlderAutoscaler".to_owned()));
}

#[tokio::test]
async fn a_missing_pool_is_a_condition() {
    let world = world(0, json!({ "free": 1 })).await;
    world.server.create(AUTOSCALERS, {
        let mut other = autoscaler("other", &json!({}));
        other["spec"]["poolRef"]["name"] = json!("gone");
        other
    });
    world.calm().await;
    let expected = ("False".to_owned(), "PoolNotFound".to_owned());
    assert_eq!(world.autoscaler_condition("other", "Active"), expected);
}

#[tokio::test]
async fn pools_of_kubevirt_are_scaled_as_well() {
    let mut world = LeaderWorld::new();
    world.settings.autoscales = true;
    let template = json!({
        "metadata": { "labels": { "farm": "web" } },
        "spec": { "runStrategy": "Always", "template": { "spec": { "domain": { "devices": {} } } } },
    });
    world.server.create(
        KUBEVIRT_POOLS,
        json!({
            "metadata": { "name": "web", "namespace": NAMESPACE },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "farm": "web" } },
                "virtualMachineTemplate": template,
            },
        }),
    );
    let mut scaling = autoscaler("web", &json!({ "free": 2 }));
    scaling["spec"]["poolRef"]["apiVersion"] = json!("pool.kubevirt.io/v1beta1");
    world.server.create(AUTOSCALERS, scaling);
    world.server.create(AUTOSCALERS, autoscaler("other", &json!({ "free": 1 })));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    assert_eq!(world.server.get(KUBEVIRT_POOLS, "web").unwrap()["spec"]["replicas"], 2);
    let expected = ("False".to_owned(), "PoolNotServed".to_owned());
    assert_eq!(world.autoscaler_condition("other", "Ready"), expected, "this leader does not serve DVP");
}

#[tokio::test]
async fn an_autoscaler_at_rest_writes_nothing() {
    let world = world(0, json!({ "free": 2 })).await;
    world.advance(Duration::from_mins(2)).await;
    world.server.take_log();
    world.advance(Duration::from_mins(10)).await;
    let writes = world.take_writes();
    assert!(writes.is_empty(), "{writes:?}");
}
