//! A client of targeted removals, in single steps. It can exit between any two steps.

use std::sync::Arc;

use super::api::{Api, Broken};
use crate::model::ObjectId;

/// One targeted removal.
#[derive(Clone, Debug)]
pub(super) struct RemovalClient {
    pub(super) request: Arc<str>,
    pub(super) targets: Vec<ObjectId>,
    next: Next,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Reserve,
    Verify,
    Withdraw,
    Accept,
    Delete(usize),
}

/// The description of a step, and whether it was the last one.
pub(super) struct Went {
    pub(super) what: String,
    pub(super) done: bool,
}

impl RemovalClient {
    pub(super) fn new(request: &str, targets: Vec<ObjectId>) -> Self {
        Self { request: request.into(), targets, next: Next::Reserve }
    }

    /// The names of the targets.
    pub(super) fn wants(&self) -> String {
        self.targets.iter().map(|target| &*target.name).collect::<Vec<_>>().join(", ")
    }

    /// Takes the next step.
    pub(super) fn step(&mut self, api: &mut Api) -> Result<Went, Broken> {
        let (what, next) = match self.next {
            Next::Reserve => match api.reserve(&self.request, &self.targets) {
                Ok(()) => ("reserves".to_owned(), Some(Next::Verify)),
                Err(full) => (format!("finds no room: {full}"), None),
            },
            Next::Verify if api.verify(&self.request, &self.targets) => {
                ("finds them all".to_owned(), Some(Next::Accept))
            }
            Next::Verify => ("misses one".to_owned(), Some(Next::Withdraw)),
            Next::Withdraw => {
                api.withdraw(&self.request);
                ("withdraws".to_owned(), None)
            }
            Next::Accept => match api.accept(&self.request, &self.targets)? {
                Some(count) => (format!("lowers replicas by {count}"), Some(Next::Delete(0))),
                None => ("comes too late".to_owned(), None),
            },
            Next::Delete(index) => {
                let target = &self.targets[index];
                let next = (index + 1 < self.targets.len()).then_some(Next::Delete(index + 1));
                (format!("deletes {target}: {}", api.delete_named(target)?), next)
            }
        };
        self.next = next.unwrap_or(self.next);
        Ok(Went { what, done: next.is_none() })
    }
}
