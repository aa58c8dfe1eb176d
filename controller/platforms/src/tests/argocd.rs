//! What tools that wait make of statuses as the platforms write them: the documented health script of Argo
//! CD, and the rules of kstatus, which Helm and Flux use.

use std::sync::Arc;

use jiff::Timestamp;
use mlua::{Lua, LuaSerdeExt as _};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::crds::Crd;
use vmpool_engine::ComputedStatus;
use vmpool_engine::condition::{ConditionType, StatusCondition};
use vmpool_engine::model::PublishedStatus;
use vmpool_engine::status::{PoolPhase, StatusSummary};

use crate::{Dvp, KubeVirt, Platform, StatusFields};

const SCRIPT: &str = include_str!("../../../../docs/examples/gitops/argocd-health.lua");
const CONFIG: &str = include_str!("../../../../docs/examples/gitops/argocd-cm.yaml");
const DEFINITIONS: [Crd; 2] = [vmpool_api::crds::POOL_CRD, vmpool_api::kubevirt::crds::POOL_CRD];
const PAGE: &str = include_str!("../../../../docs/gitops.md");

/// A pool with these conditions. Its status was computed for `observed`.
fn pool<P: Platform>(conditions: Vec<StatusCondition>, observed: i64) -> Value {
    let mut object = json!({
        "metadata": { "name": "web", "namespace": "team-a", "uid": "u", "generation": 2 },
        "spec": { "replicas": 1 },
    });
    let stored: P::Pool = serde_json::from_value(object.clone()).unwrap();
    let summary = StatusSummary {
        observed_generation: observed,
        replicas: 1,
        ready: 1,
        available: 1,
        updated: 1,
        restart_pending: 0,
        draining: 0,
        image_outdated: 0,
        next_number: None,
        healed: 0,
        revision: "r".into(),
        used_copies: Arc::default(),
        standby: vmpool_engine::standby::StandbyCounts::default(),
    };
    object["status"] =
        P::status(&stored, &ComputedStatus { summary, conditions, activity: Vec::new() }, StatusFields::All);
    object
}

fn conditions(phase: PoolPhase, is_ready: bool) -> Vec<StatusCondition> {
    let is_stalled = matches!(phase, PoolPhase::Blocked | PoolPhase::ProgressDeadlineExceeded);
    let holds = [is_ready, matches!(phase, PoolPhase::Failing | PoolPhase::Scaling), is_stalled];
    let kinds = [ConditionType::Ready, ConditionType::Reconciling, ConditionType::Stalled];
    let conditions = kinds.into_iter().zip(holds).map(|(kind, holds)| StatusCondition {
        kind: kind.to_string(),
        status: if holds { "True" } else { "False" }.into(),
        reason: phase.to_string(),
        message: format!("because of {kind}"),
        last_transition: Timestamp::UNIX_EPOCH,
        observed_generation: Some(2),
    });
    conditions.collect()
}

/// The health that the script computes, as `status: message`.
fn health(object: &Value) -> String {
    let lua = Lua::new();
    lua.globals().set("obj", lua.to_value(object).unwrap()).unwrap();
    let health: mlua::Table = lua.load(SCRIPT).eval().unwrap();
    format!("{}: {}", health.get::<String>("status").unwrap(), health.get::<String>("message").unwrap())
}

#[rstest]
#[case::ready(PoolPhase::Ready, true, "Healthy: because of Ready")]
#[case::paused_without_work(PoolPhase::Paused, true, "Healthy: because of Ready")]
#[case::paused(PoolPhase::Paused, false, "Suspended: because of Ready")]
#[case::blocked(PoolPhase::Blocked, false, "Degraded: because of Ready")]
#[case::overdue(PoolPhase::ProgressDeadlineExceeded, false, "Degraded: because of Ready")]
#[case::failing(PoolPhase::Failing, false, "Progressing: because of Ready")]
#[case::scaling(PoolPhase::Scaling, false, "Progressing: because of Ready")]
#[case::rolling_out(PoolPhase::RollingOut, false, "Progressing: because of Ready")]
fn the_script_translates_each_phase(
    #[case] phase: PoolPhase,
    #[case] is_ready: bool,
    #[case] expected: &str,
) {
    assert_eq!(health(&pool::<Dvp>(conditions(phase, is_ready), 2)), expected);
    assert_eq!(health(&pool::<KubeVirt>(conditions(phase, is_ready), 2)), expected);
}

#[test]
fn a_status_that_says_nothing_about_the_last_change_is_in_progress() {
    const WAITING: &str = "Progressing: waiting for the controller";
    assert_eq!(health(&pool::<Dvp>(conditions(PoolPhase::Ready, true), 1)), WAITING);
    assert_eq!(health(&pool::<KubeVirt>(Vec::new(), 2)), WAITING);
    assert_eq!(health(&json!({ "metadata": { "generation": 1 } })), WAITING);
    let mut deleted = pool::<Dvp>(conditions(PoolPhase::Ready, true), 2);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-24T03:00:00Z");
    assert_eq!(health(&deleted), "Progressing: the pool is being deleted");
}

/// The pool with another condition.
fn with_condition(mut pool: Value, kind: &str) -> Value {
    let condition =
        json!({ "type": kind, "status": "True", "reason": "R", "message": format!("because of {kind}") });
    pool["status"]["conditions"].as_array_mut().unwrap().push(condition);
    pool
}

#[test]
fn a_lasting_failure_is_degraded() {
    for pool in [
        pool::<Dvp>(conditions(PoolPhase::Failing, false), 2),
        pool::<KubeVirt>(conditions(PoolPhase::Failing, false), 2),
    ] {
        assert_eq!(health(&with_condition(pool.clone(), "ReplicaFailure")), "Degraded: because of Ready");
        assert_eq!(health(&with_condition(pool, "Progressing")), "Progressing: because of Ready");
    }
    let ready = pool::<Dvp>(conditions(PoolPhase::Ready, true), 2);
    assert_eq!(health(&with_condition(ready, "ReplicaFailure")), "Healthy: because of Ready");
    // Conditions for waiting clients can be absent.
    let bare = with_condition(pool::<KubeVirt>(Vec::new(), 2), "ReplicaFailure");
    assert_eq!(health(&bare), "Degraded: because of ReplicaFailure");
}

/// The status of an object by the rules of kstatus for kinds that it does not know.
fn kstatus(object: &Value) -> &'static str {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    let observed = status["observedGeneration"].as_i64();
    let is = |kind: &str, value: &str| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == kind && condition["status"] == value)
    };
    match () {
        () if !metadata["deletionTimestamp"].is_null() => "Terminating",
        () if observed.is_some_and(|observed| Some(observed) != metadata["generation"].as_i64()) => {
            "InProgress"
        }
        () if is("Reconciling", "True") => "InProgress",
        () if is("Stalled", "True") => "Failed",
        () if is("Ready", "False") || is("Ready", "Unknown") => "InProgress",
        () => "Current",
    }
}

#[rstest]
#[case::ready(PoolPhase::Ready, true, "Current")]
#[case::paused_without_work(PoolPhase::Paused, true, "Current")]
#[case::paused(PoolPhase::Paused, false, "InProgress")]
#[case::blocked(PoolPhase::Blocked, false, "Failed")]
#[case::overdue(PoolPhase::ProgressDeadlineExceeded, false, "Failed")]
#[case::failing(PoolPhase::Failing, false, "InProgress")]
#[case::scaling(PoolPhase::Scaling, false, "InProgress")]
fn helm_and_flux_wait_for_the_phase(
    #[case] phase: PoolPhase,
    #[case] is_ready: bool,
    #[case] expected: &str,
) {
    assert_eq!(kstatus(&pool::<Dvp>(conditions(phase, is_ready), 2)), expected);
    assert_eq!(kstatus(&pool::<KubeVirt>(conditions(phase, is_ready), 2)), expected);
    assert_eq!(kstatus(&pool::<Dvp>(conditions(phase, is_ready), 1)), "InProgress");
}

#[test]
fn a_pool_that_no_controller_has_processed_is_in_progress() {
    for crd in DEFINITIONS {
        let definition: Value = serde_yaml_ng::from_str(crd.yaml).unwrap();
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
            // The API server drops the status of a new object, and then fills in the default.
            let object = json!({ "metadata": { "generation": 1 }, "status": status["default"] });
            assert_eq!(kstatus(&object), "InProgress", "{}", crd.name);
            assert_eq!(health(&object), "Progressing: waiting for the controller", "{}", crd.name);
            let minimum = &status["properties"]["observedGeneration"]["minimum"];
            assert!(minimum.as_i64() <= Some(-1), "{}: the schema rejects its default", crd.name);
        }
    }
}

fn published<P: Platform>(object: &Value) -> PublishedStatus {
    let pool: P::Pool = serde_json::from_value(object.clone()).unwrap();
    P::published(&pool, &object["status"])
}

#[test]
fn the_default_of_the_status_is_no_status() {
    let stored =
        json!({ "metadata": { "name": "web", "uid": "u", "generation": 1 }, "spec": { "replicas": 1 } });
    let mut defaulted = stored.clone();
    defaulted["status"] = json!({ "observedGeneration": -1 });
    assert_eq!(published::<Dvp>(&defaulted), published::<Dvp>(&stored));
    assert_eq!(published::<KubeVirt>(&defaulted), published::<KubeVirt>(&stored));
}

#[test]
fn the_page_and_the_configuration_contain_the_script() {
    assert!(PAGE.contains(&format!("```lua\n{SCRIPT}```")));
    let config: Value = serde_yaml_ng::from_str(CONFIG).unwrap();
    let scripts = config["data"].as_object().unwrap();
    assert_eq!(scripts.len(), 2);
    assert!(scripts.values().all(|script| script == SCRIPT), "{scripts:?}");
}
