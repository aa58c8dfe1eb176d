//! Answers, for a short time and of a bounded number.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;

use crate::authentication::User;
use crate::target::Target;

/// Who, and what.
pub(super) type Key = (User, Target);

/// `None` is a yes.
pub(super) type Verdict = Option<String>;

pub(super) struct Cache {
    most: usize,
    lifetime: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answers: HashMap<Key, (Duration, Verdict)>,
    /// The keys with the time of their answer, from the oldest. A key that was answered again is in it twice, and only
    /// the younger of the two times is its answer's.
    ages: VecDeque<(Duration, Key)>,
}

impl Cache {
    pub(super) fn new(most: usize, lifetime: Duration) -> Self {
        Self { most, lifetime, state: Mutex::default() }
    }

    /// The answer, if it is young enough.
    pub(super) fn get(&self, key: &Key, now: Duration) -> Option<Verdict> {
        let state = self.state.lock();
        let (asked, verdict) = state.answers.get(key)?;
        (now.saturating_sub(*asked) < self.lifetime).then(|| verdict.clone())
    }

    /// Remembers an answer, and forgets what is too old or too much.
    pub(super) fn put(&self, key: Key, verdict: Verdict, asked: Duration) {
        let state = &mut *self.state.lock();
        state.answers.insert(key.clone(), (asked, verdict));
        state.ages.push_back((asked, key));
        while let Some((age, _)) = state.ages.front() {
            let outlived = asked.saturating_sub(*age) >= self.lifetime;
            if !outlived && state.ages.len() <= self.most {
                break;
            }
            let Some((age, key)) = state.ages.pop_front() else { break };
            if state.answers.get(&key).is_some_and(|(asked, _)| *asked == age) {
                state.answers.remove(&key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let state = self.state.lock();
        assert!(state.answers.len() <= state.ages.len(), "an answer without an age is never forgotten");
        state.ages.len()
    }
}
