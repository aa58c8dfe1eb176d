use serde_json::json;

use super::*;

const NOW: &str = "2026-11-24T18:00:00Z";

fn dvp_pool(status: &Value) -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
        "metadata": { "name": "web", "namespace": "team-a", "uid": "u1", "generation": 4 },
        "spec": { "replicas": 2, "virtualMachineTemplate": { "spec": {} } },
        "status": status,
    })
}

fn dvp_machine(namespace: &str, name: &str, pool: &str) -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachine",
        "metadata": {
            "name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-11-24T17:00:00Z",
            "ownerReferences": [{
                "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
                "name": "web", "uid": pool, "controller": true,
            }],
        },
        "spec": {},
        "status": { "phase": "Running", "nodeName": "node-1" },
    })
}

fn board_of(objects: &WatchedObjects) -> DashboardBoard {
    build_board(objects, NOW.parse().unwrap())
}

fn only_pool(objects: &WatchedObjects) -> BoardPool {
    let mut board = board_of(objects);
    assert_eq!(board.pools.len(), 1, "{board:?}");
    board.pools.remove(0)
}

#[test]
fn a_pool_has_the_machines_that_it_owns_in_its_namespace() {
    let mut objects = WatchedObjects::default();
    objects.insert(WatchedKind::Pools(PlatformName::Dvp), dvp_pool(&json!({})));
    for machine in [
        dvp_machine("team-a", "web-a", "u1"),
        dvp_machine("team-a", "web-b", "u2"),
        dvp_machine("team-b", "web-c", "u1"),
    ] {
        objects.insert(WatchedKind::Machines(PlatformName::Dvp), machine);
    }
    let pool = only_pool(&objects);
    let names: Vec<&str> = pool.machines.iter().map(|machine| &*machine.name).collect();
    assert_eq!(names, ["web-a"]);
    let tile = &pool.machines[0];
    assert_eq!((&*tile.state, tile.node.as_deref(), tile.tone), ("Running", Some("node-1"), BoardTone::Good));
}

#[test]
fn a_protection_is_shown_until_it_ends() {
    let mut objects = WatchedObjects::default();
    objects.insert(WatchedKind::Pools(PlatformName::Dvp), dvp_pool(&json!({})));
    let mut machine = dvp_machine("team-a", "web-a", "u1");
    machine["metadata"]["annotations"] = json!({
        "vmpool.dev/protected-until": "2026-11-24T19:00:00Z",
        "vmpool.dev/protected-by": "ed",
        "vmpool.dev/protection-reason": "<b>a job</b>",
    });
    objects.insert(WatchedKind::Machines(PlatformName::Dvp), machine);
    let protection = only_pool(&objects).machines.remove(0).protection.unwrap();
    assert_eq!(protection.until, Some("2026-11-24T19:00:00Z".parse().unwrap()));
    // The page shows texts as they are.
    assert_eq!(protection.reason.as_deref(), Some("<b>a job</b>"));
    let later = build_board(&objects, "2026-11-24T20:00:00Z".parse().unwrap());
    assert_eq!(later.pools[0].machines[0].protection, None);
}

#[test]
fn a_status_of_an_earlier_generation_is_not_shown_as_the_present_one() {
    let ready = json!([{ "type": "Ready", "status": "True", "reason": "Ready", "message": "ready" }]);
    let tone = |observed: i64| {
        let mut objects = WatchedObjects::default();
        let status = json!({ "observedGeneration": observed, "conditions": ready });
        objects.insert(WatchedKind::Pools(PlatformName::Dvp), dvp_pool(&status));
        let pool = only_pool(&objects);
        (pool.tone, pool.outdated.is_some())
    };
    assert_eq!(tone(4), (BoardTone::Good, false));
    assert_eq!(tone(3), (BoardTone::Notice, true));
}

/// As `status` decides, whose machines have the same facts.
#[test]
fn a_machine_is_current_if_the_published_revision_is_in_effect_in_it() {
    let current = |observed: i64| {
        let mut objects = WatchedObjects::default();
        let status = json!({ "observedGeneration": observed, "desiredTemplateHash": "new" });
        objects.insert(WatchedKind::Pools(PlatformName::Dvp), dvp_pool(&status));
        objects.insert(WatchedKind::Machines(PlatformName::Dvp), dvp_machine("team-a", "web-a", "u1"));
        only_pool(&objects).machines[0].current
    };
    assert_eq!(current(4), Some(false));
    assert_eq!(current(3), None);
}

#[test]
fn the_last_events_of_a_pool_are_shown_the_newest_first() {
    let mut objects = WatchedObjects::default();
    objects.insert(WatchedKind::Pools(PlatformName::Dvp), dvp_pool(&json!({})));
    for (name, uid, time) in [("a", "u1", 1), ("b", "u2", 2), ("c", "u1", 3)] {
        objects.insert(
            WatchedKind::Events,
            json!({
                "metadata": { "name": name, "namespace": "team-a" },
                "involvedObject": { "uid": uid }, "type": "Warning", "reason": name, "message": "m",
                "lastTimestamp": format!("2026-11-24T17:00:0{time}Z"),
            }),
        );
    }
    let events = only_pool(&objects).events;
    let reasons: Vec<&str> = events.iter().map(|event| &*event.reason).collect();
    assert_eq!(reasons, ["c", "a"]);
    assert!(events.iter().all(|event| event.warning && event.time.is_some()));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_shown() {
    let mut objects = WatchedObjects::default();
    objects.insert(WatchedKind::Pools(PlatformName::Dvp), dvp_pool(&json!({})));
    objects.set_problem(
        WatchedKind::Machines(PlatformName::Dvp),
        Some("you may not list virtualmachines".to_owned()),
    );
    let board = board_of(&objects);
    assert_eq!(board.pools.len(), 1);
    assert_eq!(board.unreadable, ["you may not list virtualmachines"]);
}

#[test]
fn a_machine_of_kubevirt_has_the_node_of_its_instance() {
    let owner = json!([{
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
        "name": "web", "uid": "u1", "controller": true,
    }]);
    let mut objects = WatchedObjects::default();
    objects.insert(
        WatchedKind::Pools(PlatformName::Kubevirt),
        json!({
            "metadata": { "name": "web", "namespace": "team-a", "uid": "u1", "generation": 1 },
            "spec": { "replicas": 1, "virtualMachineTemplate": { "spec": {} } },
        }),
    );
    objects.insert(
        WatchedKind::Machines(PlatformName::Kubevirt),
        json!({
            "metadata": { "name": "web-0", "namespace": "team-a", "uid": "m1", "ownerReferences": owner,
                          "creationTimestamp": "2026-11-24T17:00:00Z" },
            "spec": { "template": { "spec": {} } }, "status": { "printableStatus": "Starting" },
        }),
    );
    objects.insert(
        WatchedKind::Instances(PlatformName::Kubevirt),
        json!({
            "metadata": { "name": "web-0", "namespace": "team-a", "uid": "i1" },
            "spec": {}, "status": { "nodeName": "node-2" },
        }),
    );
    let pool = only_pool(&objects);
    assert_eq!((pool.platform, pool.title), ("kubevirt", "KubeVirt"));
    let tile = &pool.machines[0];
    assert_eq!((&*tile.state, tile.node.as_deref(), tile.ready), ("Starting", Some("node-2"), false));
}

fn default_json<T: Default + serde::Serialize>() -> Value {
    serde_json::to_value(T::default()).unwrap()
}

/// `cargo xtask dashboard` checks the page in a browser with a sample of the data.
#[test]
fn the_sample_of_the_browser_check_has_the_fields_of_the_board() {
    let sample: Value =
        serde_json::from_str(include_str!("../../../../../hack/src/dashboard/board.json")).unwrap();
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<String>>();
    for (pointer, own) in [
        ("", default_json::<DashboardBoard>()),
        ("/pools/1", default_json::<BoardPool>()),
        ("/pools/1/conditions/0", default_json::<ShownCondition>()),
        ("/pools/1/machines/0", default_json::<MachineTile>()),
        ("/pools/1/machines/0/protection", default_json::<ShownProtection>()),
        ("/pools/1/events/0", default_json::<ShownEvent>()),
    ] {
        let mut expected = fields(&own);
        let mut found = fields(sample.pointer(pointer).unwrap());
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{pointer}");
    }
}
