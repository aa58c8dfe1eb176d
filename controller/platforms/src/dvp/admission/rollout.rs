//! How a change of the template reaches machines: the fields, and the annotations that stand for them where the
//! cluster's definition of a pool has no such fields.
//!
//! Annotations may change while the spec does not, so this is asked before an unchanged spec lets a request through.

use serde_json::Value;
use vmpool_api::names::is_dns_label;
use vmpool_api::{Share, ShareError, annotations};
use vmpool_engine::admission::Warning;

use super::rule::Rule;
use super::view::{Pool, at, field};
use super::{Checked, refuse};

/// A field and the annotation that stands for it.
struct Twin {
    /// Where the field is, below the spec.
    path: &'static [&'static str],
    annotation: &'static str,
    /// The rule about the field.
    rule: Rule,
    /// What is wrong with a value of the field.
    of_field: fn(&Value) -> Option<Wrong>,
    /// The value that an annotation stands for, in the form of the field.
    of_annotation: fn(&str) -> Result<Value, Wrong>,
}

/// Why a value will not do, and what will.
struct Wrong {
    reason: &'static str,
    way_out: &'static str,
}

impl Wrong {
    const fn new(reason: &'static str, way_out: &'static str) -> Self {
        Self { reason, way_out }
    }
}

impl Twin {
    fn value<'a>(&self, pool: Pool<'a>) -> &'a Value {
        at(pool.spec(), self.path)
    }

    fn field(&self) -> String {
        format!("spec.{}", self.path.join("."))
    }

    fn annotation_field(&self) -> String {
        format!("metadata.annotations[{}]", self.annotation)
    }

    /// What holds: the field if there is one, otherwise what the annotation says if that can be read.
    fn effective(&self, pool: Pool<'_>) -> Value {
        let value = self.value(pool);
        if !value.is_null() {
            return value.clone();
        }
        let text = pool.annotation(self.annotation).as_str();
        text.and_then(|text| (self.of_annotation)(text).ok()).unwrap_or(Value::Null)
    }
}

const MAX_UNAVAILABLE: Twin = Twin {
    path: &["rollout", "maxUnavailable"],
    annotation: annotations::ROLLOUT_MAX_UNAVAILABLE,
    rule: Rule::MaxUnavailable,
    of_field: |value| Share::from_json(value).err().map(|error| no_share(&error)),
    of_annotation: |text| {
        Ok(match text.parse().map_err(|error| no_share(&error))? {
            Share::Machines(machines) => Value::from(machines),
            percentage @ Share::Percent(_) => Value::from(percentage.to_string()),
        })
    },
};

/// The error itself quotes the value, which every refusal does.
fn no_share(error: &ShareError) -> Wrong {
    let reason = match error {
        ShareError::NotAShare { .. } => "it is neither a number of machines nor a percentage",
        ShareError::TooSmall { .. } => "it is less than one machine",
        ShareError::TooLarge { .. } => "it is more than all machines",
    };
    Wrong::new(reason, "use a number from 1, or 1% to 100%; to change no machine at all, pause the rollout")
}

const PAUSED: Twin = Twin {
    path: &["rollout", "paused"],
    annotation: annotations::ROLLOUT_PAUSED,
    rule: Rule::Unreadable,
    of_field: |value| {
        (!value.is_boolean()).then(|| Wrong::new("it is neither true nor false", "use one of the two"))
    },
    of_annotation: |text| {
        text.parse::<bool>()
            .map(Value::from)
            .map_err(|_| Wrong::new("it is neither true nor false", "use one of the two"))
    },
};

const REVISION: Twin = Twin {
    path: &["rollout", "revision"],
    annotation: annotations::ROLLOUT_REVISION,
    rule: Rule::RevisionName,
    of_field: |value| match value.as_str() {
        Some(name) if is_dns_label(name) => None,
        _ => Some(Wrong::new(NO_NAME, NAMES)),
    },
    of_annotation: |text| {
        if is_dns_label(text) { Ok(Value::from(text)) } else { Err(Wrong::new(NO_NAME, NAMES)) }
    },
};
const NO_NAME: &str = "no revision has such a name";
const NAMES: &str = "use what status.desiredTemplateHash showed while that template was in force; the ControllerRevisions of the \
                     pool end in it";

const HISTORY: Twin = Twin {
    path: &["revisionHistoryLimit"],
    annotation: annotations::REVISION_HISTORY_LIMIT,
    rule: Rule::HistoryLimit,
    of_field: |value| {
        let count = value.as_i64().and_then(|count| i32::try_from(count).ok());
        count.is_none_or(|count| count < 0).then(|| Wrong::new(NO_COUNT, COUNTS))
    },
    of_annotation: |text| match text.parse::<i32>() {
        // A sign in front is read by Rust, and by nobody else.
        Ok(count) if text.bytes().all(|digit| digit.is_ascii_digit()) => Ok(Value::from(count)),
        _ => Err(Wrong::new(NO_COUNT, COUNTS)),
    },
};
const NO_COUNT: &str = "not a number of revisions";
const COUNTS: &str = "use a whole number from 0; 0 keeps only what machines have, so that no way leads back";

const TWINS: [Twin; 4] = [MAX_UNAVAILABLE, PAUSED, REVISION, HISTORY];

/// The revision that machines are to have in place of the template.
pub(super) fn pinned(pool: Pool<'_>) -> Option<String> {
    match REVISION.effective(pool) {
        Value::String(name) => Some(name),
        _ => None,
    }
}

/// Where that is said.
pub(super) fn pinned_by(pool: Pool<'_>) -> String {
    if REVISION.value(pool).is_null() { REVISION.annotation_field() } else { REVISION.field() }
}

/// Each value that the request changes.
pub(super) fn check(old: Option<Pool<'_>>, new: Pool<'_>, warnings: &mut Vec<Warning>) -> Checked {
    let rollout = field(new.spec(), "rollout");
    if !rollout.is_null()
        && !rollout.is_object()
        && old.is_none_or(|old| field(old.spec(), "rollout") != rollout)
    {
        return refuse(
            Rule::Unreadable,
            "spec.rollout",
            rollout,
            "it is no object",
            "give it fields, such as maxUnavailable, or remove it",
        );
    }
    for twin in &TWINS {
        let (value, annotation) = (twin.value(new), new.annotation(twin.annotation));
        let changed = old.is_none_or(|old| twin.value(old) != value);
        if changed
            && !value.is_null()
            && let Some(wrong) = (twin.of_field)(value)
        {
            return refuse(twin.rule, twin.field(), value, wrong.reason, wrong.way_out);
        }
        let annotated = old.is_none_or(|old| old.annotation(twin.annotation) != annotation);
        if annotated && !annotation.is_null() {
            let text = annotation.as_str().unwrap_or_default();
            if let Err(wrong) = (twin.of_annotation)(text) {
                return refuse(
                    Rule::RolloutAnnotation,
                    twin.annotation_field(),
                    annotation,
                    wrong.reason,
                    wrong.way_out,
                );
            }
        }
        if changed || annotated {
            contradiction(twin, new, warnings);
        }
    }
    Ok(())
}

/// The field wins, which whoever wrote the annotation may not expect.
fn contradiction(twin: &Twin, pool: Pool<'_>, warnings: &mut Vec<Warning>) {
    let (value, annotation) = (twin.value(pool), pool.annotation(twin.annotation));
    let Some(text) = annotation.as_str().filter(|_| !value.is_null()) else { return };
    if (twin.of_annotation)(text).is_ok_and(|stands_for| stands_for != *value) {
        let detail =
            format!("{} says something else, and the field wins; remove the annotation", twin.field());
        warnings.push(Warning::new(Rule::RolloutContradiction, twin.annotation_field(), detail));
    }
}

/// A template that changes, and does not reach the machines that exist.
pub(super) fn held(old: Pool<'_>, new: Pool<'_>, warnings: &mut Vec<Warning>) {
    if old.template() == new.template() {
        return;
    }
    let detail = if let Some(name) = pinned(new) {
        format!(
            "it changes, and no machine gets it: {} holds all at revision {name}; remove that to go on",
            pinned_by(new)
        )
    } else if PAUSED.effective(new) == Value::Bool(true) {
        "it changes while the rollout is paused: only new machines get it until the rollout goes on"
            .to_owned()
    } else {
        return;
    };
    warnings.push(Warning::new(Rule::RolloutHeld, "spec.virtualMachineTemplate", detail));
}
