//! Rules about the settings of the rollout: the fields, and their equivalent annotations for clusters whose
//! definition of pools lacks the fields.
//!
//! Annotations can change without the spec, so these rules are evaluated before an unchanged spec is allowed.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_api::names::is_dns_label;
use vmpool_api::{Share, ShareError, annotations};
use vmpool_engine::admission::{RefusalCollector, Warning};
use vmpool_engine::annotated_setting::AnnotatedSetting;
use vmpool_engine::draining::{DRAIN, DRAIN_FIELD, DRAIN_SETTING};
use vmpool_engine::healing::setting::{HEALING, HEALING_FIELD, HEALING_SETTING, HealingPolicy};
use vmpool_engine::image_refresh::{IMAGE_REFRESH, IMAGE_REFRESH_FIELD, IMAGE_REFRESH_SETTING, ImageRefresh};
use vmpool_engine::progress::{PROGRESS_DEADLINE, PROGRESS_DEADLINE_FIELD, PROGRESS_DEADLINE_SETTING};
use vmpool_engine::protection::{MAX_PROTECTION, MAX_PROTECTION_FIELD, MAX_PROTECTION_SETTING};
use vmpool_engine::recycling::{RECYCLE, RECYCLE_FIELD, RECYCLE_SETTING, RecyclePolicy};
use vmpool_engine::scale_up::provisioning_limit::{
    MAX_PROVISIONING, MAX_PROVISIONING_FIELD, MAX_PROVISIONING_SETTING, describe_share_error,
};
use vmpool_engine::standby::{
    STANDBY, STANDBY_FIELD, STANDBY_SETTING, StandbySettings, WarmUp, parse_standby,
};

use super::super::standby::find_start_obstacle;
use super::rule::Rule;
use super::view::{ReviewedDiskTemplate, ReviewedPool, json_at_path, json_field};

/// A field and its equivalent annotation.
struct AnnotatedField {
    /// The path of the field below the spec.
    path: &'static [&'static str],
    annotation: &'static str,
    /// The rule about the field.
    rule: Rule,
    /// The rule about the annotation.
    annotation_rule: Rule,
    /// Validates a value of the field.
    validate_field: fn(&Value) -> Option<InvalidValue>,
    /// Converts the text of the annotation into the value of the field.
    parse_annotation: fn(&str) -> Result<Value, InvalidValue>,
}

/// Why a value is invalid, and which values are valid.
struct InvalidValue {
    reason: &'static str,
    way_out: &'static str,
}

impl InvalidValue {
    const fn new(reason: &'static str, way_out: &'static str) -> Self {
        Self { reason, way_out }
    }
}

impl AnnotatedField {
    fn value<'a>(&self, pool: ReviewedPool<'a>) -> &'a Value {
        json_at_path(pool.spec(), self.path)
    }

    fn field(&self) -> String {
        format!("spec.{}", self.path.join("."))
    }

    fn annotation_field(&self) -> String {
        format!("metadata.annotations[{}]", self.annotation)
    }

    /// The effective value: the field if it is present, otherwise the annotation if it is readable.
    fn effective(&self, pool: ReviewedPool<'_>) -> Value {
        let value = self.value(pool);
        if !value.is_null() {
            return value.clone();
        }
        let text = pool.annotation(self.annotation).as_str();
        text.and_then(|text| (self.parse_annotation)(text).ok()).unwrap_or(Value::Null)
    }
}

/// Why a value of the field is invalid; `None` if it is valid.
fn validate_setting<T, E>(setting: &AnnotatedSetting<T, E>, value: &Value) -> Option<InvalidValue> {
    let error = (setting.parse_field)(value).err()?;
    Some(InvalidValue::new((setting.reason)(&error), setting.way_out))
}

/// The value of the field for a text of the annotation, in one spelling.
fn convert_setting<T, E>(
    setting: &AnnotatedSetting<T, E>,
    text: &str,
    to_field: fn(T) -> Value,
) -> Result<Value, InvalidValue> {
    let invalid = |error| InvalidValue::new((setting.reason)(&error), setting.way_out);
    (setting.parse_annotation)(text).map(to_field).map_err(invalid)
}

/// A duration in the spelling of all settings.
fn duration_text(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

const MAX_UNAVAILABLE: AnnotatedField = AnnotatedField {
    path: &["rollout", "maxUnavailable"],
    annotation: annotations::ROLLOUT_MAX_UNAVAILABLE,
    rule: Rule::MaxUnavailable,
    annotation_rule: Rule::RolloutAnnotation,
    validate_field: |value| Share::from_json(value).err().map(|error| share_error(&error)),
    parse_annotation: |text| text.parse().map(share_value).map_err(|error| share_error(&error)),
};

/// The value of a field with this share.
fn share_value(share: Share) -> Value {
    match share {
        Share::Machines(machines) => Value::from(machines),
        percentage @ Share::Percent(_) => Value::from(percentage.to_string()),
    }
}

fn share_error(error: &ShareError) -> InvalidValue {
    let way_out = "use a number from 1, or 1% to 100%; to update no machine, pause the rollout";
    InvalidValue::new(describe_share_error(error), way_out)
}

const PAUSED: AnnotatedField = AnnotatedField {
    path: &["rollout", "paused"],
    annotation: annotations::ROLLOUT_PAUSED,
    rule: Rule::Unreadable,
    annotation_rule: Rule::RolloutAnnotation,
    validate_field: |value| {
        (!value.is_boolean()).then(|| InvalidValue::new("it is neither true nor false", "use one of the two"))
    },
    parse_annotation: |text| {
        text.parse::<bool>()
            .map(Value::from)
            .map_err(|_| InvalidValue::new("it is neither true nor false", "use one of the two"))
    },
};

const REVISION: AnnotatedField = AnnotatedField {
    path: &["rollout", "revision"],
    annotation: annotations::ROLLOUT_REVISION,
    rule: Rule::RevisionName,
    annotation_rule: Rule::RolloutAnnotation,
    validate_field: |value| match value.as_str() {
        Some(name) if is_dns_label(name) => None,
        _ => Some(InvalidValue::new(NO_NAME, NAMES)),
    },
    parse_annotation: |text| {
        if is_dns_label(text) { Ok(Value::from(text)) } else { Err(InvalidValue::new(NO_NAME, NAMES)) }
    },
};
const NO_NAME: &str = "no revision has such a name";
const NAMES: &str = "use the value of status.desiredTemplateHash while that template was current; the \
ControllerRevisions of the \
                     pool end in it";

const HISTORY: AnnotatedField = AnnotatedField {
    path: &["revisionHistoryLimit"],
    annotation: annotations::REVISION_HISTORY_LIMIT,
    rule: Rule::HistoryLimit,
    annotation_rule: Rule::RolloutAnnotation,
    validate_field: |value| {
        let count = value.as_i64().and_then(|count| i32::try_from(count).ok());
        count.is_none_or(|count| count < 0).then(|| InvalidValue::new(NO_COUNT, COUNTS))
    },
    parse_annotation: |text| match text.parse::<i32>() {
        // Rust parses a leading sign, but no other implementation does.
        Ok(count) if text.bytes().all(|digit| digit.is_ascii_digit()) => Ok(Value::from(count)),
        _ => Err(InvalidValue::new(NO_COUNT, COUNTS)),
    },
};
const NO_COUNT: &str = "not a number of revisions";
const COUNTS: &str =
    "use a whole number from 0; 0 keeps only what machines have, so that no rollback is possible";

const PROTECTION: AnnotatedField = AnnotatedField {
    path: &[MAX_PROTECTION_FIELD],
    annotation: MAX_PROTECTION,
    rule: Rule::MaxProtection,
    annotation_rule: Rule::MaxProtection,
    validate_field: |value| validate_setting(&MAX_PROTECTION_SETTING, value),
    // One spelling of each duration, so that `60m` and `1h` are equal.
    parse_annotation: |text| {
        convert_setting(&MAX_PROTECTION_SETTING, text, |longest| Value::from(duration_text(longest)))
    },
};

const DEADLINE: AnnotatedField = AnnotatedField {
    path: &[PROGRESS_DEADLINE_FIELD],
    annotation: PROGRESS_DEADLINE,
    rule: Rule::ProgressDeadline,
    annotation_rule: Rule::ProgressDeadline,
    validate_field: |value| validate_setting(&PROGRESS_DEADLINE_SETTING, value),
    parse_annotation: |text| {
        convert_setting(&PROGRESS_DEADLINE_SETTING, text, |deadline| Value::from(deadline.as_secs()))
    },
};

const REFRESH: AnnotatedField = AnnotatedField {
    path: &[IMAGE_REFRESH_FIELD],
    annotation: IMAGE_REFRESH,
    rule: Rule::ImageRefresh,
    annotation_rule: Rule::ImageRefresh,
    validate_field: |value| validate_setting(&IMAGE_REFRESH_SETTING, value),
    parse_annotation: |text| {
        convert_setting(&IMAGE_REFRESH_SETTING, text, |refresh| Value::from(refresh.as_str()))
    },
};

const PROVISIONING: AnnotatedField = AnnotatedField {
    path: &[MAX_PROVISIONING_FIELD],
    annotation: MAX_PROVISIONING,
    rule: Rule::MaxProvisioning,
    annotation_rule: Rule::MaxProvisioning,
    validate_field: |value| validate_setting(&MAX_PROVISIONING_SETTING, value),
    parse_annotation: |text| convert_setting(&MAX_PROVISIONING_SETTING, text, share_value),
};

const DRAINING: AnnotatedField = AnnotatedField {
    path: &[DRAIN_FIELD],
    annotation: DRAIN,
    rule: Rule::Drain,
    annotation_rule: Rule::Drain,
    validate_field: |value| validate_setting(&DRAIN_SETTING, value),
    parse_annotation: |text| {
        convert_setting(&DRAIN_SETTING, text, |timeout| json!({ "timeout": duration_text(timeout) }))
    },
};

const STANDBY_MACHINES: AnnotatedField = AnnotatedField {
    path: &[STANDBY_FIELD],
    annotation: STANDBY,
    rule: Rule::Standby,
    annotation_rule: Rule::Standby,
    validate_field: |value| validate_setting(&STANDBY_SETTING, value),
    parse_annotation: |text| convert_setting(&STANDBY_SETTING, text, standby_value),
};

/// The value of a field with these settings.
fn standby_value(settings: StandbySettings) -> Value {
    let warm_up = match settings.warm_up {
        WarmUp::FirstReady => "FirstReady",
        WarmUp::None => "None",
    };
    json!({ "replicas": settings.replicas, "warmUp": warm_up, "warmUpDelay": duration_text(settings.delay) })
}

/// A template that does not start machines by itself can have no standby machines.
fn check_standby_start(old: Option<ReviewedPool<'_>>, new: ReviewedPool<'_>, found: &mut RefusalCollector) {
    let policy = |pool: ReviewedPool<'_>| {
        json_at_path(pool.spec(), &["virtualMachineTemplate", "spec", "runPolicy"]).clone()
    };
    let state = |pool| (STANDBY_MACHINES.effective(pool), policy(pool));
    let (standby, policy) = state(new);
    if old.is_some_and(|old| state(old) == (standby.clone(), policy.clone())) {
        return;
    }
    let has_some = parse_standby(&standby).is_ok_and(|settings| settings.replicas > 0);
    if let Some(obstacle) = find_start_obstacle(&json!({ "runPolicy": policy })).filter(|_| has_some) {
        let way_out = "use another runPolicy, or set standby.replicas to 0";
        found.refuse(Rule::Standby, STANDBY_MACHINES.field(), &standby, obstacle, way_out);
    }
}

const HEALTH: AnnotatedField = AnnotatedField {
    path: &[HEALING_FIELD],
    annotation: HEALING,
    rule: Rule::Healing,
    annotation_rule: Rule::Healing,
    validate_field: |value| validate_setting(&HEALING_SETTING, value),
    parse_annotation: |text| convert_setting(&HEALING_SETTING, text, healing_value),
};

/// The setting with all its fields.
fn healing_value(policy: HealingPolicy) -> Value {
    json!({
        "notReadyFor": duration_text(policy.not_ready_for),
        "startTimeout": duration_text(policy.start_timeout),
        "maxUnhealthy": share_value(policy.max_unhealthy),
        "replaceStuckAfter": duration_text(policy.replace_stuck_after),
    })
}

const RECYCLING: AnnotatedField = AnnotatedField {
    path: &[RECYCLE_FIELD],
    annotation: RECYCLE,
    rule: Rule::Recycle,
    annotation_rule: Rule::Recycle,
    validate_field: |value| validate_setting(&RECYCLE_SETTING, value),
    parse_annotation: |text| convert_setting(&RECYCLE_SETTING, text, recycle_value),
};

/// The value of a field with this policy, in one spelling of its lifetime.
fn recycle_value(policy: RecyclePolicy) -> Value {
    let lifetime = policy.max_lifetime.map(duration_text);
    json!({ "maxLifetime": lifetime, "maxClaims": policy.max_claims, "jitter": policy.jitter })
}

const ANNOTATED_FIELDS: [AnnotatedField; 12] = [
    MAX_UNAVAILABLE,
    PAUSED,
    REVISION,
    HISTORY,
    PROTECTION,
    PROVISIONING,
    HEALTH,
    DRAINING,
    DEADLINE,
    RECYCLING,
    STANDBY_MACHINES,
    REFRESH,
];

/// The pinned revision.
pub(super) fn pinned_revision(pool: ReviewedPool<'_>) -> Option<String> {
    match REVISION.effective(pool) {
        Value::String(name) => Some(name),
        _ => None,
    }
}

/// The path of the field or annotation that sets it.
pub(super) fn pinned_revision_path(pool: ReviewedPool<'_>) -> String {
    if REVISION.value(pool).is_null() { REVISION.annotation_field() } else { REVISION.field() }
}

/// Checks each value that the request changes.
pub(super) fn check_rollout_settings(
    old: Option<ReviewedPool<'_>>,
    new: ReviewedPool<'_>,
    found: &mut RefusalCollector,
    warnings: &mut Vec<Warning>,
) {
    let rollout = json_field(new.spec(), "rollout");
    if !rollout.is_null()
        && !rollout.is_object()
        && old.is_none_or(|old| json_field(old.spec(), "rollout") != rollout)
    {
        found.refuse(
            Rule::Unreadable,
            "spec.rollout",
            rollout,
            "it is no object",
            "give it fields, such as maxUnavailable, or remove it",
        );
        return;
    }
    check_standby_start(old, new, found);
    for setting in &ANNOTATED_FIELDS {
        let (value, annotation) = (setting.value(new), new.annotation(setting.annotation));
        let changed = old.is_none_or(|old| setting.value(old) != value);
        if changed
            && !value.is_null()
            && let Some(wrong) = (setting.validate_field)(value)
        {
            found.refuse(setting.rule, setting.field(), value, wrong.reason, wrong.way_out);
        }
        let annotated = old.is_none_or(|old| old.annotation(setting.annotation) != annotation);
        if annotated && !annotation.is_null() {
            let text = annotation.as_str().unwrap_or_default();
            if let Err(wrong) = (setting.parse_annotation)(text) {
                found.refuse(
                    setting.annotation_rule,
                    setting.annotation_field(),
                    annotation,
                    wrong.reason,
                    wrong.way_out,
                );
            }
        }
        if changed || annotated {
            warn_overridden_annotation(setting, new, warnings);
        }
    }
    check_refresh_of_retained_disks(old, new, found);
}

/// Refuses to recreate machines for their images if no disk would be created again.
fn check_refresh_of_retained_disks(
    old: Option<ReviewedPool<'_>>,
    new: ReviewedPool<'_>,
    found: &mut RefusalCollector,
) {
    let recreates_in_vain = |pool: ReviewedPool<'_>| {
        REFRESH.effective(pool) == ImageRefresh::Recreate.as_str()
            && pool.disks().next().is_some()
            && pool.disks().all(ReviewedDiskTemplate::retains)
    };
    if !recreates_in_vain(new) || old.is_some_and(recreates_in_vain) {
        return;
    }
    let value = REFRESH.value(new);
    let (path, value) = if value.is_null() {
        (REFRESH.annotation_field(), new.annotation(IMAGE_REFRESH))
    } else {
        (REFRESH.field(), value)
    };
    let reason = "all disks of the pool are retained, so no machine would get a disk of the new image";
    let way_out = "use Report, or set reclaim.onScaleDown of a disk template to Delete";
    found.refuse(Rule::ImageRefresh, path, value, reason, way_out);
}

/// Warns if an annotation has no effect because the field is set.
fn warn_overridden_annotation(setting: &AnnotatedField, pool: ReviewedPool<'_>, warnings: &mut Vec<Warning>) {
    let (value, annotation) = (setting.value(pool), pool.annotation(setting.annotation));
    let Some(text) = annotation.as_str().filter(|_| !value.is_null()) else { return };
    let read = |text: &str| (setting.parse_annotation)(text).ok();
    let spelled = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let value = read(&spelled).unwrap_or_else(|| value.clone());
    if read(text).is_some_and(|stands_for| stands_for != value) {
        let detail = format!(
            "{} has another value, and the field overrides the annotation; remove the annotation",
            setting.field()
        );
        warnings.push(Warning::new(Rule::RolloutContradiction, setting.annotation_field(), detail));
    }
}

/// Warns if a template changes while existing machines are not updated.
pub(super) fn warn_held_rollout(old: ReviewedPool<'_>, new: ReviewedPool<'_>, warnings: &mut Vec<Warning>) {
    if old.template() == new.template() {
        return;
    }
    let detail = if let Some(name) = pinned_revision(new) {
        format!(
            "it changes, but {} pins all machines to revision {name}; remove that to roll the change out",
            pinned_revision_path(new)
        )
    } else if PAUSED.effective(new) == Value::Bool(true) {
        "it changes while the rollout is paused: until you continue the rollout, only new machines get it"
            .to_owned()
    } else {
        return;
    };
    warnings.push(Warning::new(Rule::RolloutHeld, "spec.virtualMachineTemplate", detail));
}
