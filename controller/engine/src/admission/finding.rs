//! What a broken rule says to the user.

use std::fmt;

use serde_json::Value;

use super::{Rule, Severity};

/// The API server may cut longer warnings.
const LONGEST_WARNING: usize = 256;

/// A value is quoted up to so many characters.
const LONGEST_VALUE: usize = 80;

/// A request breaks a rule that refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule.
    pub rule: Rule,
    /// Path of the field in the object, such as `spec.replicas`.
    pub field: String,
    /// What stands there, as JSON, shortened.
    pub value: String,
    /// Why that is wrong, and what to do instead.
    pub detail: String,
}

impl Refusal {
    /// A refusal of what stands at `field`. `reason` says what is wrong, `way_out` what to do.
    pub fn new(
        rule: impl Into<Rule>,
        field: impl Into<String>,
        value: &Value,
        reason: impl fmt::Display,
        way_out: impl fmt::Display,
    ) -> Self {
        let rule = rule.into();
        debug_assert!(rule.severity() != Severity::Warning, "{rule} only warns");
        Self { rule, field: field.into(), value: quoted(value), detail: format!("{reason}; {way_out}") }
    }

    /// Whether the request is one that its user may not make, and not one that nobody may make.
    pub fn is_forbidden(&self) -> bool {
        self.rule.severity() == Severity::Forbidden
    }

    /// The words behind the field and its value, as in the causes of a Kubernetes `Status`.
    pub fn cause(&self) -> String {
        let kind = if self.is_forbidden() { "Forbidden" } else { "Invalid value" };
        format!("{kind}: {}: {} (rule {})", self.value, self.detail, self.rule)
    }
}

/// One line: field, value, what is wrong, what to do, and the rule.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.cause())
    }
}

/// A request breaks a rule that only warns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The rule.
    pub rule: Rule,
    /// Path of the field in the object.
    pub field: String,
    /// What is odd about it, and what to do.
    pub detail: String,
}

impl Warning {
    /// A warning about what stands at `field`. `detail` describes it, and what the user can do.
    pub fn new(rule: impl Into<Rule>, field: impl Into<String>, detail: impl Into<String>) -> Self {
        let rule = rule.into();
        debug_assert!(rule.severity() == Severity::Warning, "{rule} refuses");
        Self { rule, field: field.into(), detail: detail.into() }
    }
}

/// One line without control characters and short enough for the header that carries it.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = format!(" (rule {})", self.rule);
        let text: String = format!("{}: {}", self.field, self.detail)
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        let text = shortened(&text, LONGEST_WARNING - end.len());
        write!(f, "{text}{end}")
    }
}

/// A value for a message: JSON in one line, `null` for what is absent, and never long.
pub fn quoted(value: &Value) -> String {
    match value {
        // The whole of a large value need not be written down to be cut.
        Value::Array(list) if list.len() > LONGEST_VALUE => format!("[{} entries]", list.len()),
        Value::Object(map) if map.len() > LONGEST_VALUE => format!("{{{} entries}}", map.len()),
        Value::String(text) if text.len() > 4 * LONGEST_VALUE => {
            let begin: String = text.chars().take(LONGEST_VALUE).collect();
            shortened(&Value::from(format!("{begin}...")).to_string(), LONGEST_VALUE)
        }
        other => shortened(&other.to_string(), LONGEST_VALUE),
    }
}

/// At most `limit` bytes of a text, cut between two letters.
pub fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub(3);
    let end = (0..=room).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}...", &text[..end])
}
