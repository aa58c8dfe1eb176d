//! A client of targeted removals, in single steps. It can exit between any two steps.

use std::sync::Arc;

use super::api::{Api, BrokenInvariant};
use crate::model::ObjectId;

/// One targeted removal.
#[derive(Clone, Debug)]
pub(super) struct ModelRemovalClient {
    pub(super) request: Arc<str>,
    pub(super) targets: Vec<ObjectId>,
    next: RemovalStep,
}

#[derive(Clone, Copy, Debug)]
enum RemovalStep {
    Reserve,
    Verify,
    Withdraw,
    Accept,
    Delete(usize),
}

/// The description of a step, and whether it was the last one.
pub(super) struct RemovalStepResult {
    pub(super) what: String,
    pub(super) done: bool,
}

impl ModelRemovalClient {
    pub(super) fn new(request: &str, targets: Vec<ObjectId>) -> Self {
        Self { request: request.into(), targets, next: RemovalStep::Reserve }
    }

    /// The names of the targets.
    pub(super) fn wants(&self) -> String {
        self.targets.iter().map(|target| &*target.name).collect::<Vec<_>>().join(", ")
    }

    /// Takes the next step.
    pub(super) fn step(&mut self, api: &mut Api) -> Result<RemovalStepResult, BrokenInvariant> {
        let (what, next) = match self.next {
            RemovalStep::Reserve => match api.reserve(&self.request, &self.targets) {
                Ok(()) => ("reserves".to_owned(), Some(RemovalStep::Verify)),
                Err(full) => (format!("finds no room: {full}"), None),
            },
            RemovalStep::Verify if api.verify(&self.request, &self.targets) => {
                ("finds them all".to_owned(), Some(RemovalStep::Accept))
            }
            RemovalStep::Verify => ("misses one".to_owned(), Some(RemovalStep::Withdraw)),
            RemovalStep::Withdraw => {
                api.withdraw(&self.request);
                ("withdraws".to_owned(), None)
            }
            RemovalStep::Accept => match api.accept(&self.request, &self.targets)? {
                Some(count) => (format!("lowers replicas by {count}"), Some(RemovalStep::Delete(0))),
                None => ("comes too late".to_owned(), None),
            },
            RemovalStep::Delete(index) => {
                let target = &self.targets[index];
                let next = (index + 1 < self.targets.len()).then_some(RemovalStep::Delete(index + 1));
                (format!("deletes {target}: {}", api.delete_named(target)?), next)
            }
        };
        self.next = next.unwrap_or(self.next);
        Ok(RemovalStepResult { what, done: next.is_none() })
    }
}
