//! The hooks of a machine, and which of them are released.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use vmpool_api::annotations;

use super::mark::{DrainMark, MARK};
use crate::limits::clip_name;

/// Prefix of the annotations of machines that are hooks. The rest of the key names the hook.
pub const HOOK_PREFIX: &str = annotations::DRAIN_HOOK_PREFIX;
/// Maximum number of hooks of a machine. The controller ignores further ones.
pub const MOST_HOOKS: usize = 16;

/// One hook of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainHook {
    /// The name: the key of the annotation without its prefix.
    pub name: Arc<str>,
    /// The value of the annotation. A hook whose value is the id of the current drain is released.
    pub value: Arc<str>,
}

/// What the annotations of a machine say about draining.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draining {
    /// The hooks, in the order of their names; at most [`MOST_HOOKS`].
    pub hooks: Vec<DrainHook>,
    /// The mark; `None` if the machine is not draining, or if the mark cannot be read.
    pub mark: Option<DrainMark>,
}

impl Draining {
    /// Reads the annotations of a machine; `None` if they contain nothing about draining.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Option<Arc<Self>> {
        let annotations = annotations?;
        let of_prefix = annotations.range(HOOK_PREFIX.to_owned()..);
        let hooks = of_prefix
            .map_while(|(key, value)| Some((key.strip_prefix(HOOK_PREFIX)?, value)))
            .take(MOST_HOOKS)
            .map(|(name, value)| DrainHook { name: clip_name(name).into(), value: clip_name(value).into() });
        let read = Self {
            hooks: hooks.collect(),
            mark: annotations.get(MARK).and_then(|text| DrainMark::parse(text)),
        };
        (read != Self::default()).then(|| Arc::new(read))
    }

    /// The names of the hooks that the drain with this id waits for.
    pub fn unreleased<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        self.hooks.iter().filter(move |hook| *hook.value != *id).map(|hook| &hook.name)
    }

    /// Whether the owner of a hook has released it for the current drain. Its agent may have stopped, so that
    /// the machine is not called back.
    pub fn is_released_by_owner(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| self.hooks.iter().any(|hook| *hook.value == *mark.id))
    }

    /// The mark, if the machine waits for hooks at this time: neither all are released, nor has the deadline
    /// passed.
    pub fn waiting_mark(&self, now: Timestamp, timeout: std::time::Duration) -> Option<&DrainMark> {
        let mark = self.mark.as_ref()?;
        let waits = self.unreleased(&mark.id).next().is_some() && now < mark.effective_deadline(now, timeout);
        waits.then_some(mark)
    }
}
