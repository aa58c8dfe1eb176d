//! The messages of broken rules.

use std::fmt;

use serde_json::Value;

use super::rule::{AdmissionRule, RuleSeverity};

/// Maximum length of a warning, in bytes. The API server can truncate longer ones.
const LONGEST_WARNING: usize = 256;

/// Maximum length of a quoted value, in characters.
const LONGEST_VALUE: usize = 80;

/// Which part of a message comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOrder {
    /// The field and its value, as in messages of Kubernetes.
    FieldFirst,
    /// The error, because clients know the text of another webhook and look for it there.
    ReasonFirst,
}

/// A broken rule that rejects the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule.
    pub rule: AdmissionRule,
    /// Path of the field in the object, such as `spec.replicas`.
    pub field: String,
    /// The value of the field as JSON, shortened.
    pub value: String,
    /// Why the value is invalid, and what to do.
    pub detail: String,
    /// The order of the message.
    pub order: MessageOrder,
}

impl Refusal {
    /// Creates a refusal of the value at `field`. `reason` is the error, and `way_out` is what to do.
    pub fn new(
        rule: impl Into<AdmissionRule>,
        field: impl Into<String>,
        value: &Value,
        reason: impl fmt::Display,
        way_out: impl fmt::Display,
    ) -> Self {
        let rule = rule.into();
        debug_assert!(rule.severity() != RuleSeverity::Warning, "{rule} only warns");
        Self {
            rule,
            field: field.into(),
            value: quote_json_value(value),
            detail: describe_problem(&reason.to_string(), &way_out.to_string()),
            order: MessageOrder::FieldFirst,
        }
    }

    /// The refusal with the error at the beginning of its message.
    #[must_use]
    pub fn reason_first(self) -> Self {
        Self { order: MessageOrder::ReasonFirst, ..self }
    }

    /// Whether the user is not permitted to send the request, rather than the request being invalid.
    pub fn is_forbidden(&self) -> bool {
        self.rule.severity() == RuleSeverity::Forbidden
    }

    /// The reason in the causes of a Kubernetes `Status`.
    pub fn reason(&self) -> &'static str {
        match self.rule.severity() {
            RuleSeverity::Invalid | RuleSeverity::Warning => "FieldValueInvalid",
            RuleSeverity::Required => "FieldValueRequired",
            RuleSeverity::NotSupported => "FieldValueNotSupported",
            RuleSeverity::Forbidden => "FieldValueForbidden",
        }
    }

    /// The message without the field, as in the causes of a Kubernetes `Status`.
    pub fn cause(&self) -> String {
        let Self { detail, rule, .. } = self;
        let value = self.describe_value();
        match self.order {
            MessageOrder::FieldFirst => format!("{value}: {detail} (rule {rule})"),
            MessageOrder::ReasonFirst => format!("{detail}; {value} (rule {rule})"),
        }
    }

    fn describe_value(&self) -> String {
        let value = &self.value;
        match self.rule.severity() {
            RuleSeverity::Invalid | RuleSeverity::Warning => format!("Invalid value: {value}"),
            RuleSeverity::Required => "Required value".to_owned(),
            RuleSeverity::NotSupported => format!("Unsupported value: {value}"),
            RuleSeverity::Forbidden => format!("Forbidden: {value}"),
        }
    }
}

/// The error, and what to do. An error that is a sentence ends with its own period.
fn describe_problem(reason: &str, way_out: &str) -> String {
    if !reason.ends_with('.') {
        return format!("{reason}; {way_out}");
    }
    let mut letters = way_out.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{reason} {first}{}", letters.as_str())
}

/// One line: field, value, what is wrong, what to do, and the rule; or the error first.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, detail, rule, order, .. } = self;
        match order {
            MessageOrder::FieldFirst => write!(f, "{field}: {}", self.cause()),
            MessageOrder::ReasonFirst => {
                write!(f, "{detail}; {field}: {} (rule {rule})", self.describe_value())
            }
        }
    }
}

/// All broken rules that reject one request, in the order of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusals {
    first: Box<Refusal>,
    others: Vec<Refusal>,
}

impl Refusals {
    /// The given refusals; `None` if there are none.
    pub fn new(refusals: impl IntoIterator<Item = Refusal>) -> Option<Self> {
        let mut refusals = refusals.into_iter();
        Some(Self { first: Box::new(refusals.next()?), others: refusals.collect() })
    }

    /// The first refusal. It determines the status of the response.
    pub fn first(&self) -> &Refusal {
        &self.first
    }

    /// All refusals.
    pub fn iter(&self) -> impl Iterator<Item = &Refusal> {
        std::iter::once(&*self.first).chain(&self.others)
    }
}

impl From<Box<Refusal>> for Refusals {
    fn from(only: Box<Refusal>) -> Self {
        Self { first: only, others: Vec::new() }
    }
}

impl From<Refusal> for Refusals {
    fn from(only: Refusal) -> Self {
        Box::new(only).into()
    }
}

/// One line: the refusals, separated by commas.
impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.others.iter().try_for_each(|refusal| write!(f, ", {refusal}"))
    }
}

/// A broken rule that only warns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The rule.
    pub rule: AdmissionRule,
    /// Path of the field in the object.
    pub field: String,
    /// The problem, and what to do.
    pub detail: String,
}

impl Warning {
    /// Creates a warning about the value at `field`. `detail` is the problem, and what to do.
    pub fn new(rule: impl Into<AdmissionRule>, field: impl Into<String>, detail: impl Into<String>) -> Self {
        let rule = rule.into();
        debug_assert!(rule.severity() == RuleSeverity::Warning, "{rule} refuses");
        Self { rule, field: field.into(), detail: detail.into() }
    }
}

/// One line without control characters that fits into an HTTP warning header.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = format!(" (rule {})", self.rule);
        let text: String = format!("{}: {}", self.field, self.detail)
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        let text = shorten_text(&text, LONGEST_WARNING - end.len());
        write!(f, "{text}{end}")
    }
}

/// A value for a message: one line of JSON with a limited length, and `null` if it is absent.
pub fn quote_json_value(value: &Value) -> String {
    match value {
        // A large value is not serialized completely before it is shortened.
        Value::Array(list) if list.len() > LONGEST_VALUE => format!("[{} entries]", list.len()),
        Value::Object(map) if map.len() > LONGEST_VALUE => format!("{{{} entries}}", map.len()),
        Value::String(text) if text.len() > 4 * LONGEST_VALUE => {
            let begin: String = text.chars().take(LONGEST_VALUE).collect();
            shorten_text(&Value::from(format!("{begin}...")).to_string(), LONGEST_VALUE)
        }
        other => shorten_text(&other.to_string(), LONGEST_VALUE),
    }
}

/// `text`, truncated at a character boundary to `limit` bytes.
pub fn shorten_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(limit.saturating_sub(3))])
}

/// The result of a rule. The error is boxed, because it is large and rare.
pub type RuleResult<T = ()> = Result<T, Box<Refusal>>;

/// The refusals of checks that do not depend on each other, so that one response names all of them.
#[derive(Clone, Debug, Default)]
pub struct RefusalCollector(Vec<Refusal>);

impl RefusalCollector {
    /// Adds a refusal of the value at `field`. `reason` is the error, and `way_out` is what to do.
    pub fn refuse(
        &mut self,
        rule: impl Into<AdmissionRule>,
        field: impl Into<String>,
        value: &Value,
        reason: impl fmt::Display,
        way_out: impl fmt::Display,
    ) {
        self.add(Refusal::new(rule, field, value, reason, way_out));
    }

    /// Adds a refusal.
    pub fn add(&mut self, refusal: Refusal) {
        self.0.push(refusal);
    }

    /// Whether there is a refusal.
    pub fn rejects(&self) -> bool {
        !self.0.is_empty()
    }

    /// Keeps the refusal of a check, or returns its value.
    pub fn note<T>(&mut self, checked: RuleResult<T>) -> Option<T> {
        checked.map_err(|refusal| self.0.push(*refusal)).ok()
    }

    /// Ends a group of checks.
    ///
    /// # Errors
    /// The refusals of the group: the checks of the next one expect that there are none.
    pub fn end_group(&mut self) -> Result<(), Refusals> {
        Refusals::new(std::mem::take(&mut self.0)).map_or(Ok(()), Err)
    }
}

/// A refusal as the error of a check. `reason` is the error, and `way_out` is what to do.
///
/// # Errors
/// Always.
pub fn refuse_value<T>(
    rule: impl Into<AdmissionRule>,
    field: impl Into<String>,
    value: &Value,
    reason: impl fmt::Display,
    way_out: impl fmt::Display,
) -> RuleResult<T> {
    Err(Box::new(Refusal::new(rule, field, value, reason, way_out)))
}
