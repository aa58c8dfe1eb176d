//! How an autoscaler reads a pool and its machines.

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_api::annotations::{DRAINING, WAITING_CLAIMS};
use vmpool_autoscaler::machines::DemandCounts;
use vmpool_autoscaler::waiting::{WaitingClaimKey, WaitingClaims};
use vmpool_engine::protection::{CLAIM, Claim, UNTIL, timestamp_text};
use vmpool_platforms::{Dvp, Platform};

use super::super::pool_facts::AutoscaledPoolFacts;
use crate::testing::{NAMESPACE, pool_manifest};

const POOL_UID: &str = "uid-web";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn machine(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
                "name": "web", "uid": POOL_UID, "controller": true,
            }],
        },
        "spec": {},
        "status": { "phase": "Running" },
    })
}

/// The facts of pool `web` with these machines.
fn read_facts(annotations: &Value, machines: &[Value]) -> AutoscaledPoolFacts {
    let mut pool = pool_manifest("web", 3);
    pool["metadata"]["uid"] = json!(POOL_UID);
    pool["metadata"]["resourceVersion"] = json!("1");
    pool["metadata"]["annotations"] = annotations.clone();
    let object: <Dvp as Platform>::Pool = serde_json::from_value(pool).unwrap();
    let read = |machine: &Value| Dvp::read_machine(&serde_json::from_value(machine.clone()).unwrap());
    let machines: Vec<_> = machines.iter().map(read).collect();
    AutoscaledPoolFacts::read(&object, &Dvp::read_pool(&object), &machines, now())
}

fn until() -> String {
    timestamp_text(now() + jiff::SignedDuration::from_mins(30))
}

#[test]
fn a_protected_machine_that_drains_is_not_busy() {
    let mark = json!({
        "id": "d1", "reason": "ScaleDown", "since": "2027-01-01T00:00:00Z", "deadline": "2099-01-01T00:00:00Z",
    });
    let busy = machine("a", &json!({ UNTIL: until() }));
    let draining = machine("b", &json!({ UNTIL: until(), DRAINING: mark.to_string() }));
    let facts = read_facts(&Value::Null, &[busy, draining, machine("c", &Value::Null)]);
    assert_eq!(facts.counts(), DemandCounts { all: 3, busy: 1, free: 1, provisioning: 0 });
}

#[test]
fn a_claim_that_a_machine_has_does_not_wait() {
    let mut waiting = WaitingClaims::default();
    for id in ["job-1", "job-2"] {
        waiting.record(WaitingClaimKey::new("ann", id), now().as_second());
    }
    let claim = Claim { id: "job-1".to_owned(), user: "ann".to_owned(), pool_uid: POOL_UID.to_owned() };
    let claimed = machine("a", &json!({ UNTIL: until(), CLAIM: claim.text() }));
    let facts = read_facts(&json!({ WAITING_CLAIMS: waiting.text() }), &[claimed]);
    assert_eq!((facts.demand().busy, facts.demand().waiting), (1, 1));
    assert!(facts.waiting.contains(&WaitingClaimKey::new("ann", "job-2")));
    assert!(facts.answered.contains(&WaitingClaimKey::new("ann", "job-1")));
}

#[test]
fn an_annotation_of_another_client_does_not_raise_the_demand() {
    for text in ["", "[]", "{\"x\":1}", "\u{0}", &"[".repeat(10_000), "{\"a.b\":9e99}"] {
        let facts = read_facts(&json!({ WAITING_CLAIMS: text }), &[]);
        assert_eq!(facts.demand().waiting, 0, "{text}");
    }
}
