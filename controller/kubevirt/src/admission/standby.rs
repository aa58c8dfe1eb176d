//! Rules about standby machines.

use serde_json::Value;
use vmpool_api::kubevirt::values::StatePreservation;
use vmpool_engine::standby::{STANDBY, STANDBY_FIELD, STANDBY_SETTING};

use super::super::standby::find_start_obstacle;
use super::findings::Findings;
use super::pool::KubeVirtPoolView;
use super::rule::Rule;
use super::settings::{check_annotated_setting, read_effective_setting};

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
            &written_setting(new),
            obstacle,
            way_out,
        );
    }
}

/// The effective setting as it is written: the field, or else the annotation.
fn written_setting(pool: KubeVirtPoolView<'_>) -> Value {
    match pool.part(STANDBY_FIELD) {
        Value::Null => {
            serde_json::from_str(pool.annotation(STANDBY).as_str().unwrap_or_default()).unwrap_or_default()
        }
        field => field.clone(),
    }
}

fn wants_standby(pool: KubeVirtPoolView<'_>) -> bool {
    read_effective_setting(&STANDBY_SETTING, pool).is_some_and(|settings| settings.replicas > 0)
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
