//! The figures, as JSON and as a table.

use std::fmt;

use serde_json::{Map, Value, json};
use vmpool_test_cluster::control_plane::RequestCounts;

use crate::catalogue::{self, FigureDescription};

#[cfg(test)]
mod tests;

/// The limit of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    /// The minimum.
    AtLeast(f64),
    /// The maximum.
    AtMost(f64),
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(limit) => f.pad(&format!(">= {limit}")),
            Self::AtMost(limit) => f.pad(&format!("<= {limit}")),
        }
    }
}

/// A measured value.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    entry: &'static FigureDescription,
    value: f64,
    bar: Option<Limit>,
    goal: Option<Limit>,
}

/// All figures of a run in the order of measurement, and details that are too long for a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BenchReport {
    figures: Vec<Figure>,
    details: Map<String, Value>,
}

impl BenchReport {
    /// Adds a figure without a limit.
    pub(crate) fn add(&mut self, key: &str, value: f64) {
        self.demand(key, value, None, None);
    }

    /// Adds a figure with a limit and a goal beyond it.
    pub(crate) fn demand(&mut self, key: &str, value: f64, bar: Option<Limit>, goal: Option<Limit>) {
        let entry = catalogue::find_figure(key).expect("every figure is in the catalogue");
        self.figures.push(Figure { entry, value, bar, goal });
    }

    /// Adds a value for the JSON file only.
    pub(crate) fn detail(&mut self, key: &str, value: Value) {
        self.details.insert(key.to_owned(), value);
    }

    /// The number of figures that miss their limit.
    pub(crate) fn missed(&self) -> usize {
        self.figures.iter().filter(|figure| figure.bar.is_some_and(|bar| !bar.holds(figure.value))).count()
    }

    /// One flat object with every figure by name, and `details`.
    pub(crate) fn to_json(&self) -> Value {
        let mut object: Map<String, Value> =
            self.figures.iter().map(|figure| (figure.entry.key.to_owned(), number(figure.value))).collect();
        object.insert("details".to_owned(), Value::Object(self.details.clone()));
        Value::Object(object)
    }
}

/// Rounds to four decimals, which is more than the accuracy of any figure; whole numbers are written as
/// integers.
fn number(value: f64) -> Value {
    let rounded = (value * 1e4).round() / 1e4;
    #[expect(clippy::cast_possible_truncation, reason = "whole figures are far below 2^53")]
    if rounded.fract() == 0.0 { json!(rounded as i64) } else { json!(rounded) }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {:<32} {:>12} {:<10} {:>10} {:>10}", "figure", "value", "unit", "first bar", "goal")?;
        for Figure { entry: FigureDescription { key, unit, .. }, value, bar, goal } in &self.figures {
            let text = |limit: &Option<Limit>| limit.map_or_else(String::new, |limit| limit.to_string());
            let verdict = match (bar, goal) {
                (Some(bar), _) if !bar.holds(*value) => "MISSED",
                (_, Some(goal)) if goal.holds(*value) => "goal",
                (Some(_), _) => "ok",
                (None, Some(_)) => "below goal",
                (None, None) => "",
            };
            let value = number(*value).to_string();
            let (bar, goal) = (text(bar), text(goal));
            let line = format!("  {key:<32} {value:>12} {unit:<10} {bar:>10} {goal:>10}  {verdict}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The counters, one per line.
pub(crate) fn request_count_lines(requests: &RequestCounts) -> Vec<String> {
    requests.iter().map(|(key, count)| format!("{count} {key}")).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
pub(crate) fn as_f64(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
pub(crate) fn count_as_f64(count: u64) -> f64 {
    count as f64
}
