//! The documented health script of Argo CD, on statuses as the platforms write them.

use std::sync::Arc;

use jiff::Timestamp;
use mlua::{Lua, LuaSerdeExt as _};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::ComputedStatus;
use vmpool_engine::condition::{ConditionType, StatusCondition};
use vmpool_engine::status::{PoolPhase, StatusSummary};

use crate::{Dvp, KubeVirt, Platform, StatusFields};

const SCRIPT: &str = include_str!("../../../../docs/examples/gitops/argocd-health.lua");
const CONFIG: &str = include_str!("../../../../docs/examples/gitops/argocd-cm.yaml");
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
        next_number: None,
        healed: 0,
        revision: "r".into(),
        used_copies: Arc::default(),
    };
    object["status"] =
        P::status(&stored, &ComputedStatus { summary, conditions, activity: Vec::new() }, StatusFields::All);
    object
}

fn conditions(phase: PoolPhase, is_ready: bool) -> Vec<StatusCondition> {
    let holds =
        [is_ready, matches!(phase, PoolPhase::Failing | PoolPhase::Scaling), phase == PoolPhase::Blocked];
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

#[test]
fn the_page_and_the_configuration_contain_the_script() {
    assert!(PAGE.contains(&format!("```lua\n{SCRIPT}```")));
    let config: Value = serde_yaml_ng::from_str(CONFIG).unwrap();
    let scripts = config["data"].as_object().unwrap();
    assert_eq!(scripts.len(), 2);
    assert!(scripts.values().all(|script| script == SCRIPT), "{scripts:?}");
}
