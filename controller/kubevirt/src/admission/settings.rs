//! Rules about the settings of a pool: replicas, disruption budget, strategies and autohealing.

use serde_json::{Value, json};
use vmpool_api::kubevirt::annotations::{INSTANCETYPE_POLICY, NAME_GENERATION, REVISION_HISTORY_LIMIT};
use vmpool_api::kubevirt::values::{SortPolicy, StatePreservation};
use vmpool_api::{DurationError, GoDuration, Share, ShareError};
use vmpool_engine::annotated_setting::AnnotatedSetting;
use vmpool_engine::draining::{DRAIN_FIELD, DRAIN_SETTING};
use vmpool_engine::healing::setting::{HEALING_FIELD, HEALING_SETTING};
use vmpool_engine::image_refresh::{IMAGE_REFRESH_FIELD, IMAGE_REFRESH_SETTING, ImageRefresh};
use vmpool_engine::progress::{PROGRESS_DEADLINE_FIELD, PROGRESS_DEADLINE_SETTING};
use vmpool_engine::protection::{MAX_PROTECTION_FIELD, MAX_PROTECTION_SETTING};
use vmpool_engine::recycling::{RECYCLE_FIELD, RECYCLE_SETTING};
use vmpool_engine::scale_up::provisioning_limit::{
    MAX_PROVISIONING, MAX_PROVISIONING_FIELD, describe_share_error,
};
use vmpool_engine::standby::STANDBY_FIELD;
use vmpool_instancetype::pins::policy::{self, InstancetypePolicy};
use vmpool_platform::value::{json_at_path, json_field};

use super::super::read::read_pool_settings;
use super::super::{annotated_names, history_limit};
use super::findings::Findings;
use super::pool::KubeVirtPoolView;
use super::rule::Rule;

/// The fields of the spec that this version of vmpool knows.
const KNOWN: [&str; 19] = [
    "autohealing",
    DRAIN_FIELD,
    STANDBY_FIELD,
    HEALING_FIELD,
    IMAGE_REFRESH_FIELD,
    "instancetypePolicy",
    MAX_PROTECTION_FIELD,
    MAX_PROVISIONING_FIELD,
    "maxUnavailable",
    "nameGeneration",
    "paused",
    PROGRESS_DEADLINE_FIELD,
    RECYCLE_FIELD,
    "replicas",
    history_limit::FIELD,
    "scaleInStrategy",
    "selector",
    "updateStrategy",
    "virtualMachineTemplate",
];

/// The members of a strategy.
const STRATEGIES: [&str; 3] = ["unmanaged", "opportunistic", "proactive"];

/// A definition of pools from a newer KubeVirt has more fields. Refusing them would stop users who do not
/// rely on them.
pub(super) fn warn_about_unknown_fields(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let fields = pool.spec().as_object().into_iter().flatten();
    for (name, _) in fields.filter(|(name, _)| !KNOWN.contains(&name.as_str())).take(3) {
        let detail = "this version of vmpool does not know the field, so it has no effect; remove it, or upgrade vmpool";
        findings.warn(Rule::UnknownField, format!("spec.{name}"), detail);
    }
}

/// The settings with a field and an annotation, as far as they change. The annotation can change without the
/// spec.
pub(super) fn check_annotated_settings(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    check_annotated_setting(&MAX_PROTECTION_SETTING, Rule::MaxProtection, old, new, findings);
    check_annotated_setting(&PROGRESS_DEADLINE_SETTING, Rule::ProgressDeadline, old, new, findings);
    check_max_provisioning(old, new, findings);
    check_annotated_setting(&HEALING_SETTING, Rule::Healing, old, new, findings);
    check_annotated_setting(&IMAGE_REFRESH_SETTING, Rule::ImageRefresh, old, new, findings);
    check_refresh_of_preserved_storage(old, new, findings);
    check_annotated_setting(&DRAIN_SETTING, Rule::Drain, old, new, findings);
    check_annotated_setting(&RECYCLE_SETTING, Rule::Recycle, old, new, findings);
}

/// The field and the annotation of one setting, as far as they change.
pub(super) fn check_annotated_setting<T, E>(
    setting: &AnnotatedSetting<T, E>,
    rule: Rule,
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    let AnnotatedSetting { field, annotation, parse_field, parse_annotation, .. } = setting;
    let mut refuse = |path: String, value: &Value, error: &E| {
        findings.refuse(rule, path, value, (setting.reason)(error), setting.way_out);
    };
    let value = new.part(field);
    if !(value.is_null() || old.is_some_and(|old| old.part(field) == value))
        && let Err(error) = parse_field(value)
    {
        refuse(format!("spec.{field}"), value, &error);
    }
    let value = new.annotation(annotation);
    if !(value.is_null() || old.is_some_and(|old| old.annotation(annotation) == value))
        && let Err(error) = parse_annotation(value.as_str().unwrap_or_default())
    {
        refuse(format!("metadata.annotations[{annotation}]"), value, &error);
    }
}

/// The setting of a pool: its field, or else its annotation. `None` without a readable value.
pub(super) fn read_effective_setting<T, E>(
    setting: &AnnotatedSetting<T, E>,
    pool: KubeVirtPoolView<'_>,
) -> Option<T> {
    match pool.part(setting.field) {
        Value::Null => (setting.parse_annotation)(pool.annotation(setting.annotation).as_str()?).ok(),
        value => (setting.parse_field)(value).ok(),
    }
}

/// Refuses to recreate machines for their images if the next machine gets the storage of the former one.
fn check_refresh_of_preserved_storage(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    if !recreates_in_vain(new) || old.is_some_and(recreates_in_vain) {
        return;
    }
    let field = new.part(IMAGE_REFRESH_FIELD);
    let annotation = IMAGE_REFRESH_SETTING.annotation;
    let (path, value) = if field.is_null() {
        (format!("metadata.annotations[{annotation}]"), new.annotation(annotation))
    } else {
        (format!("spec.{IMAGE_REFRESH_FIELD}"), field)
    };
    let reason =
        "statePreservation retains the storage of the pool, so no machine would get a disk of the new image";
    let way_out = "use Report, or set statePreservation to Disabled";
    findings.refuse(Rule::ImageRefresh, path, value, reason, way_out);
}

/// Whether the pool recreates machines for their images, and preserves all their storage.
fn recreates_in_vain(pool: KubeVirtPoolView<'_>) -> bool {
    let settings = read_pool_settings(pool.spec());
    read_effective_setting(&IMAGE_REFRESH_SETTING, pool) == Some(ImageRefresh::Recreate)
        && settings.scale_in.preservation != StatePreservation::Disabled
        && !settings.data_volume_templates.is_empty()
}

/// The field and the annotation that limit provisioning, as far as they change.
fn check_max_provisioning(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    let (field, annotation) = (new.part(MAX_PROVISIONING_FIELD), new.annotation(MAX_PROVISIONING));
    let mut refuse = |path: String, value: &Value, error: &ShareError| {
        let way_out = "use a number of machines from 1, or 1% to 100%, or remove it";
        findings.refuse(Rule::MaxProvisioning, path, value, describe_share_error(error), way_out);
    };
    if !field.is_null()
        && old.is_none_or(|old| old.part(MAX_PROVISIONING_FIELD) != field)
        && let Err(error) = Share::from_json(field)
    {
        refuse(format!("spec.{MAX_PROVISIONING_FIELD}"), field, &error);
    }
    if let Some(text) = annotation.as_str()
        && old.is_none_or(|old| old.annotation(MAX_PROVISIONING) != annotation)
        && let Err(error) = text.parse::<Share>()
    {
        refuse(format!("metadata.annotations[{MAX_PROVISIONING}]"), annotation, &error);
    }
}

/// The field and the annotation that limit the number of stored revisions, as far as they change.
pub(super) fn check_history_limit(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    let is_valid = |limit: &Value| match limit {
        Value::String(text) => history_limit::parse_history_limit(text).is_some(),
        limit => limit.as_i64().is_some_and(|limit| (0..=i64::from(i32::MAX)).contains(&limit)),
    };
    let mut check = |path: String, limit: &Value, before: Option<&Value>, is_type: bool| {
        if limit.is_null() || before == Some(limit) || is_type && is_valid(limit) {
            return;
        }
        let way_out = "use a whole number from 0, or remove it; 0 keeps only what machines have, so that no rollback \
                       is possible";
        findings.refuse(Rule::HistoryLimit, path, limit, "it is not a number of revisions", way_out);
    };
    let (field, annotation) = (new.part(history_limit::FIELD), new.annotation(REVISION_HISTORY_LIMIT));
    let old_field = old.map(|old| old.part(history_limit::FIELD));
    check(format!("spec.{}", history_limit::FIELD), field, old_field, !field.is_string());
    let old_annotation = old.map(|old| old.annotation(REVISION_HISTORY_LIMIT));
    let path = format!("metadata.annotations[{REVISION_HISTORY_LIMIT}]");
    check(path, annotation, old_annotation, annotation.is_string());
}

/// The annotation with fields of `nameGeneration`, if it changes.
pub(super) fn check_annotated_names(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    let annotation = new.annotation(NAME_GENERATION);
    if old.is_some_and(|old| old.annotation(NAME_GENERATION) == annotation) {
        return;
    }
    if let Some(name) = annotation.as_str().and_then(annotated_names::find_unknown_name) {
        findings.refuse(
            Rule::AnnotatedNames,
            format!("metadata.annotations[{NAME_GENERATION}]"),
            &Value::from(name),
            "there is no such setting",
            "use setHostnameToVMName, appendIndexToSysprepRefs, appendIndexToMetaDataSecretRefs, \
             appendIndexToResourceClaimRefs and appendIndexToVMStateRefs, with commas between them",
        );
    }
}

/// The policy for instance types, in the spec or in the annotation.
pub(super) fn check_instancetype_policy(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let annotation = pool.annotation(INSTANCETYPE_POLICY);
    let path = format!("metadata.annotations[{INSTANCETYPE_POLICY}]");
    for (path, value) in [(POLICY.to_owned(), pool.part(policy::FIELD)), (path, annotation)] {
        if policy::instancetype_policy_error(value, policy::FIELD).is_some() {
            let way_out = "supported values: \"Pin\", \"Expand\", \"PerMember\"";
            findings.refuse(
                Rule::UnknownWord,
                path,
                value,
                "there is no such policy for instance types",
                way_out,
            );
        }
    }
}

/// A change of the policy while machines exist.
pub(super) fn refuse_policy_change(
    new: KubeVirtPoolView<'_>,
    old: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    let of = |pool: KubeVirtPoolView<'_>| {
        let mut spec = json!({ (policy::FIELD): pool.part(policy::FIELD) });
        let annotation = pool.annotation(INSTANCETYPE_POLICY).as_str().map(str::to_owned);
        policy::add_annotated_policy(&mut spec, annotation.as_ref());
        InstancetypePolicy::of(&spec)
    };
    let machines = json_at_path(old.0, &["status", "replicas"]).as_u64().unwrap_or_default();
    if machines > 0 && of(new) != of(old) {
        let reason = "instancetypePolicy cannot change while the pool has machines";
        let way_out = "set replicas to 0 first, or create another pool";
        findings.refuse(Rule::PolicyChanged, POLICY, new.part(policy::FIELD), reason, way_out);
    }
}

const POLICY: &str = "spec.instancetypePolicy";

pub(super) fn check_replicas(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let value = pool.part("replicas");
    if !value.is_null() && value.as_i64().is_none_or(|count| !(0..=i64::from(i32::MAX)).contains(&count)) {
        let reason = "the number of machines must be greater than or equal to 0";
        findings.refuse(Rule::Value, "spec.replicas", value, reason, "use a number from 0");
    }
}

pub(super) fn check_max_unavailable(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    const PATH: &str = "spec.maxUnavailable";
    let value = pool.part("maxUnavailable");
    let mut refuse = |rule, reason: String, way_out| findings.refuse(rule, PATH, value, reason, way_out);
    match value {
        Value::Null => {}
        Value::String(text) => match text.strip_suffix('%').map(str::parse::<i64>) {
            None => refuse(
                Rule::NoPercent,
                "a maxUnavailable in quotes must end with %".to_owned(),
                "write a percentage such as \"25%\", or a number of machines without quotes",
            ),
            Some(Err(_)) => refuse(
                Rule::BadPercent,
                format!("the percentage value {text:?} is invalid"),
                "write an integer before the %, for example \"25%\"",
            ),
            Some(Ok(percent)) if !(1..=100).contains(&percent) => refuse(
                Rule::PercentRange,
                "the percentage of maxUnavailable must be between 1 and 100".to_owned(),
                "use a percentage such as \"25%\"",
            ),
            Some(Ok(_)) => {}
        },
        number if number.as_i64().is_some_and(|number| number > 0) => {}
        _ => refuse(
            Rule::NumberRange,
            "maxUnavailable must be greater than 0".to_owned(),
            "use a number of machines from 1, or a percentage",
        ),
    }
}

/// The strategy in this field of the spec.
pub(super) fn check_single_strategy(
    pool: KubeVirtPoolView<'_>,
    name: &str,
    rule: Rule,
    findings: &mut Findings,
) {
    let strategy = pool.part(name);
    let set = STRATEGIES.iter().filter(|machine| !json_field(strategy, machine).is_null());
    if set.count() > 1 {
        findings.refuse(
            rule,
            format!("spec.{name}"),
            strategy,
            "only one strategy can be configured",
            "keep one of unmanaged, opportunistic and proactive",
        );
    }
}

/// The enumerated values of the strategy in this field of the spec.
pub(super) fn check_strategy_values(pool: KubeVirtPoolView<'_>, name: &str, findings: &mut Findings) {
    let strategy = pool.part(name);
    let sort = json_at_path(strategy, &["proactive", "selectionPolicy", "sortPolicy"]);
    if !sort.is_null() && sort.as_str().is_none_or(|sort| sort.parse::<SortPolicy>().is_err()) {
        findings.refuse(
            Rule::UnknownWord,
            format!("spec.{name}.proactive.selectionPolicy.sortPolicy"),
            sort,
            "there is no such sort policy",
            "supported values: \"AscendingOrder\", \"DescendingOrder\", \"Newest\", \"Oldest\", \"Random\"",
        );
    }
    for machine in ["opportunistic", "proactive"] {
        let preservation = json_at_path(strategy, &[machine, "statePreservation"]);
        let path = || format!("spec.{name}.{machine}.statePreservation");
        match preservation.as_str().map(str::parse::<StatePreservation>) {
            Some(Ok(StatePreservation::Online)) => findings.warn(
                Rule::OnlinePreservation,
                path(),
                "Online retains the volumes of removed machines, as Offline does, and not the memory of their guests",
            ),
            Some(Ok(_)) => {}
            None if preservation.is_null() => {}
            None | Some(Err(_)) => findings.refuse(
                Rule::UnknownWord,
                path(),
                preservation,
                "there is no such state preservation",
                "supported values: \"Disabled\", \"Offline\", \"Online\"",
            ),
        }
    }
}

pub(super) fn check_autohealing(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let threshold = json_field(pool.part("autohealing"), "startUpFailureThreshold");
    if !threshold.is_null()
        && threshold.as_i64().is_none_or(|count| !(1..=i64::from(u32::MAX)).contains(&count))
    {
        findings.refuse(
            Rule::Value,
            "spec.autohealing.startUpFailureThreshold",
            threshold,
            "the number of failed starts must be between 1 and 4294967295",
            "use a number such as 3",
        );
    }
    let (value, duration) = read_autohealing_duration(pool);
    if let Some(Ok(duration)) = duration
        && duration.as_nanos() < 0
    {
        findings.refuse(
            Rule::HealingTime,
            HEALING_TIME,
            value,
            "the duration must not be negative, because machines would be replaced at once",
            "use a duration such as 5m",
        );
    }
}

const HEALING_TIME: &str = "spec.autohealing.minFailingToStartDuration";

/// Why the duration of autohealing cannot be decoded.
#[derive(Debug, thiserror::Error)]
enum HealingTimeError {
    #[error("it is not a text")]
    NoText,
    #[error(transparent)]
    Duration(#[from] DurationError),
}

fn read_autohealing_duration(
    pool: KubeVirtPoolView<'_>,
) -> (&Value, Option<Result<GoDuration, HealingTimeError>>) {
    let value = json_field(pool.part("autohealing"), "minFailingToStartDuration");
    let duration = match value {
        Value::Null => None,
        Value::String(text) => Some(text.parse::<GoDuration>().map_err(HealingTimeError::from)),
        _ => Some(Err(HealingTimeError::NoText)),
    };
    (value, duration)
}

/// Why the duration of autohealing cannot be decoded.
pub(super) fn autohealing_decode_error(pool: KubeVirtPoolView<'_>) -> Option<String> {
    let (_, duration) = read_autohealing_duration(pool);
    let reason = duration?.err()?;
    Some(format!("{HEALING_TIME} must be a duration such as 90s or 5m: {reason}"))
}
