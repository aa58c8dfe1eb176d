//! All broken rules of one request. KubeVirt's API reports them together.

use std::fmt;

use serde_json::Value;
use vmpool_engine::admission::{AdmissionDecision, AdmissionVerdict, Refusal, RefusalCollector, Warning};

use super::rule::Rule;

/// The broken rules, in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    refusals: RefusalCollector,
    pub(super) warnings: Vec<Warning>,
}

impl Findings {
    /// Adds a refusal of the value at `field`. `reason` is the error, in the words of KubeVirt if it has the
    /// rule: the message begins with it, where clients of KubeVirt's webhook look for it. `way_out` is what
    /// to do.
    pub(super) fn refuse(
        &mut self,
        rule: Rule,
        field: impl Into<String>,
        value: &Value,
        reason: impl fmt::Display,
        way_out: impl fmt::Display,
    ) {
        self.refusals.add(Refusal::new(rule, field, value, reason, way_out).reason_first());
    }

    /// Adds a warning about the value at `field`. `detail` is the problem, and what to do.
    pub(super) fn warn(&mut self, rule: Rule, field: impl Into<String>, detail: impl Into<String>) {
        self.warnings.push(Warning::new(rule, field, detail));
    }

    /// Whether a rule rejects the request.
    pub(super) fn rejects(&self) -> bool {
        self.refusals.rejects()
    }

    /// The verdict.
    pub(super) fn verdict(mut self) -> AdmissionVerdict {
        let outcome = self
            .refusals
            .end_group()
            .map_or_else(AdmissionDecision::Refused, |()| AdmissionDecision::Allowed);
        AdmissionVerdict { outcome, warnings: self.warnings }
    }
}
