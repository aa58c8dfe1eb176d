//! Answers, for a short time and of a bounded number and size.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::authentication::User;
use crate::target::Target;

/// Who, and what.
pub(super) type Key = (User, Target);

/// `None` is a yes.
pub(super) type Verdict = Option<String>;

/// Bytes of a key and its answer that are worth remembering. A user may be in hundreds of groups.
const LARGEST: usize = 32 << 10;
/// Bytes of all of them.
const MOST_BYTES: usize = 8 << 20;

pub(super) struct Cache {
    most: usize,
    lifetime: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answers: HashMap<Arc<Key>, (Duration, Verdict)>,
    /// The keys with the time of their answer, from the oldest. A key that was answered again is in it twice, and only
    /// the younger of the two times is its answer's.
    ages: VecDeque<Age>,
    /// Bytes of all that is in `ages`.
    bytes: usize,
}

struct Age {
    asked: Duration,
    key: Arc<Key>,
    bytes: usize,
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

    /// Remembers an answer, and forgets what is too old or too much. What is too large is not remembered.
    pub(super) fn put(&self, key: Key, verdict: Verdict, asked: Duration) {
        let bytes = size(&key) + verdict.as_ref().map_or(0, String::len);
        let state = &mut *self.state.lock();
        if bytes <= LARGEST {
            let key = Arc::new(key);
            state.answers.insert(Arc::clone(&key), (asked, verdict));
            state.ages.push_back(Age { asked, key, bytes });
            state.bytes += bytes;
        } else {
            // An answer from before would not be true any more.
            state.answers.remove(&key);
        }
        while let Some(age) = state.ages.front() {
            let outlived = asked.saturating_sub(age.asked) >= self.lifetime;
            if !outlived && state.ages.len() <= self.most && state.bytes <= MOST_BYTES {
                break;
            }
            let Some(Age { asked: age, key, bytes }) = state.ages.pop_front() else { break };
            state.bytes -= bytes;
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
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let state = self.state.lock();
        assert_eq!(state.bytes, state.ages.iter().map(|age| age.bytes).sum::<usize>());
        state.bytes
    }
}

/// Bytes that a key takes, nearly.
fn size((user, target): &Key) -> usize {
    let texts = |texts: &[String]| texts.iter().map(|text| text.len() + size_of::<String>()).sum::<usize>();
    let extra = user.extra.iter().map(|(key, values)| key.len() + size_of::<String>() + texts(values));
    let user = user.name.len() + user.uid.len() + texts(&user.groups) + extra.sum::<usize>();
    let target = match target {
        Target::Document { path, verb } => path.len() + verb.len(),
        Target::Object(object) => object.texts().iter().map(|text| text.len()).sum(),
    };
    size_of::<Key>() + user + target
}
