//! Machines in which fields of the template are not in effect, because another program changed them while the
//! API server stored the machine.
//!
//! The responses of creates and updates show that. No fact of a machine does: the caches do not contain its
//! spec, and a field that a user edits later stays as the user wants it. A new leader has no responses. It
//! takes over what the condition of the pool shows, until the spec changes or the machines of that time are
//! gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::condition::{ConditionType, StatusCondition};
use crate::ids::Uid;
use crate::model::{Machine, Pool};

/// The paths of fields, in the spelling of admission messages.
pub type FieldPaths = Arc<[Arc<str>]>;

/// The machines in which fields of the current template are not in effect.
#[derive(Clone, Debug, Default)]
pub struct OverriddenFields {
    machines: BTreeMap<Uid, FieldPaths>,
    /// What the former leader published for this generation, and the machines of that time. `None` after they
    /// are gone.
    published: Option<(String, BTreeSet<Uid>)>,
    /// The generation that [`OverriddenFields::published`] belongs to.
    generation: i64,
}

impl OverriddenFields {
    /// Records the fields of a machine whose values in the response differ from those that were sent. None
    /// means that the template is in effect.
    pub fn record(&mut self, machine: &Uid, fields: FieldPaths) {
        if fields.is_empty() {
            self.machines.remove(machine);
        } else {
            self.machines.insert(machine.clone(), fields);
        }
    }

    /// The fields of a machine.
    pub fn of(&self, machine: &Uid) -> &[Arc<str>] {
        self.machines.get(machine).map_or(&[], |fields| fields)
    }

    /// Whether no machine has such fields.
    pub fn is_empty(&self) -> bool {
        self.machines.is_empty() && self.published.is_none()
    }

    /// Takes over what the former leader published.
    pub(crate) fn restore(&mut self, pool: &Pool) {
        let is_it = |condition: &&StatusCondition| {
            condition.is(ConditionType::TemplateOverridden)
                && condition.status == "True"
                && condition.observed_generation.is_none_or(|known| known == pool.generation)
        };
        let found = pool.published.conditions.iter().find(is_it);
        self.generation = pool.generation;
        self.published = found.map(|condition| (condition.message.clone(), BTreeSet::new()));
    }

    /// Drops machines that are gone, and what was published for another generation.
    pub(crate) fn observe<'a>(&mut self, machines: impl Iterator<Item = &'a Arc<Machine>>, generation: i64) {
        if self.is_empty() {
            return;
        }
        let live: BTreeSet<&Uid> =
            machines.filter(|machine| !machine.terminating).map(|machine| &machine.id.uid).collect();
        self.machines.retain(|machine, _| live.contains(machine));
        let is_of_generation = self.generation == generation;
        self.published =
            self.published.take().filter(|_| is_of_generation).and_then(|(message, mut known)| {
                if known.is_empty() {
                    known.extend(live.iter().map(|uid| (*uid).clone()));
                }
                known.retain(|uid| live.contains(uid));
                (!known.is_empty()).then_some((message, known))
            });
    }

    /// Whether fields of the template are not in effect in this machine.
    pub(crate) fn includes(&self, machine: &Uid) -> bool {
        let is_published = || self.published.as_ref().is_some_and(|(_, machines)| machines.contains(machine));
        self.machines.contains_key(machine) || is_published()
    }

    /// All fields, each once.
    pub(crate) fn fields(&self) -> BTreeSet<&Arc<str>> {
        self.machines.values().flat_map(|fields| fields.iter()).collect()
    }

    /// What the former leader published, if no response of this leader has shown a field.
    pub(crate) fn published(&self) -> Option<&str> {
        let published = self.published.as_ref().map(|(message, _)| message.as_str());
        published.filter(|_| self.machines.is_empty())
    }
}

#[cfg(test)]
mod tests;
