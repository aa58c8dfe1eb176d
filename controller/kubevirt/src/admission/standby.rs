//! Rules about standby machines.

use serde_json::Value;
use vmpool_api::kubevirt::values::StatePreservation;
use vmpool_engine::standby::{STANDBY, STANDBY_FIELD, STANDBY_SETTING, parse_standby};

use super::super::standby::find_start_obstacle;
use super::findings::Findings;
use super::pool::KubeVirtPoolView;
use super::rule::Rule;
use super::settings::check_annotated_setting;

/// The field and the annotation for standby machines, as far as they change, and what a pool with standby
/// machines must not have.
pub(super) fn check_standby(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    check_annotated_setting(&STANDBY_SETTING, Rule::Standby, old, new, findings);
    let obstacle = find_obstacle(new);
    if old.is_none_or(|old| wants_standby(old) != wants_standby(new) || find_obstacle(old) != obstacle)
        && let Some(obstacle) = obstacle.filter(|_| wants_standby(new))
    {
        let way_out = "change it, or set standby.replicas to 0";
        findings.refuse(
            Rule::Standby,
            format!("spec.{STANDBY_FIELD}"),
            &effective_setting(new),
            obstacle,
            way_out,
        );
    }
}

/// The value of the annotation; null if it is no JSON.
fn annotated_setting(annotation: &Value) -> Value {
    let text = annotation.as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// The effective setting: the field, or else the annotation.
fn effective_setting(pool: KubeVirtPoolView<'_>) -> Value {
    match pool.part(STANDBY_FIELD) {
        Value::Null => annotated_setting(pool.annotation(STANDBY)),
        field => field.clone(),
    }
}

fn wants_standby(pool: KubeVirtPoolView<'_>) -> bool {
    parse_standby(&effective_setting(pool)).is_ok_and(|settings| settings.replicas > 0)
}

/// Why the pool can have no standby machines.
fn find_obstacle(pool: KubeVirtPoolView<'_>) -> Option<&'static str> {
    let strategy = pool.part("scaleInStrategy");
    let preserves = |mode: &str| {
        let preservation = &strategy[mode]["statePreservation"];
        !preservation.is_null() && *preservation != *StatePreservation::Disabled.as_str()
    };
    if preserves("proactive") || preserves("opportunistic") {
        return Some("state preservation binds disks to ordinals");
    }
    find_start_obstacle(pool.part("virtualMachineTemplate"))
}
