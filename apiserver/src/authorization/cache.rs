//! A cache of decisions with a limited lifetime, number and size.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::authentication::AuthenticatedUser;
use crate::request_info::RequestInfo;

/// A caller and its request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AuthorizationKey {
    pub(super) user: AuthenticatedUser,
    pub(super) request: RequestInfo,
}

/// The reason of a denial; `None` if the request is allowed.
pub(super) type Denial = Option<String>;

/// The maximum size of an entry in bytes. A user may be in hundreds of groups.
const MAX_ENTRY: usize = 32 << 10;
/// The maximum size of all entries in bytes.
const MAX_SIZE: usize = 8 << 20;

pub(super) struct AuthorizationCache {
    max_entries: usize,
    ttl: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    decisions: HashMap<Arc<AuthorizationKey>, (Duration, Denial)>,
    /// The keys with the time of their review, oldest first. A key that was reviewed again occurs twice, and
    /// the later time is that of the cached decision.
    reviews: VecDeque<Review>,
    /// The size of all entries of `reviews` in bytes.
    bytes: usize,
}

struct Review {
    reviewed_at: Duration,
    key: Arc<AuthorizationKey>,
    bytes: usize,
}

impl AuthorizationCache {
    pub(super) fn new(max_entries: usize, ttl: Duration) -> Self {
        Self { max_entries, ttl, state: Mutex::default() }
    }

    /// The decision, if it has not expired.
    pub(super) fn get(&self, key: &AuthorizationKey, now: Duration) -> Option<Denial> {
        let state = self.state.lock();
        let (reviewed_at, denial) = state.decisions.get(key)?;
        (now.saturating_sub(*reviewed_at) < self.ttl).then(|| denial.clone())
    }

    /// Adds a decision, and removes those that expired or exceed the limits. An entry that is too large is
    /// not added.
    pub(super) fn put(&self, key: AuthorizationKey, denial: Denial, reviewed_at: Duration) {
        let bytes = authorization_key_size(&key) + denial.as_ref().map_or(0, String::len);
        let state = &mut *self.state.lock();
        if bytes <= MAX_ENTRY {
            let key = Arc::new(key);
            state.decisions.insert(Arc::clone(&key), (reviewed_at, denial));
            state.reviews.push_back(Review { reviewed_at, key, bytes });
            state.bytes += bytes;
        } else {
            // The new decision replaces an earlier one.
            state.decisions.remove(&key);
        }
        while let Some(oldest) = state.reviews.front() {
            let expired = reviewed_at.saturating_sub(oldest.reviewed_at) >= self.ttl;
            if !expired && state.reviews.len() <= self.max_entries && state.bytes <= MAX_SIZE {
                break;
            }
            let Some(oldest) = state.reviews.pop_front() else { break };
            state.bytes -= oldest.bytes;
            let latest = state.decisions.get(&oldest.key).map(|(reviewed_at, _)| *reviewed_at);
            if latest == Some(oldest.reviewed_at) {
                state.decisions.remove(&oldest.key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let state = self.state.lock();
        assert!(
            state.decisions.len() <= state.reviews.len(),
            "a decision without a review would never expire"
        );
        state.reviews.len()
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let state = self.state.lock();
        assert_eq!(state.bytes, state.reviews.iter().map(|review| review.bytes).sum::<usize>());
        state.bytes
    }
}

/// The approximate size of a key in bytes.
fn authorization_key_size(key: &AuthorizationKey) -> usize {
    let AuthorizationKey { user, request } = key;
    let texts = |texts: &[String]| texts.iter().map(|text| text.len() + size_of::<String>()).sum::<usize>();
    let extra = user.extra.iter().map(|(key, values)| key.len() + size_of::<String>() + texts(values));
    let user = user.name.len() + user.uid.len() + texts(&user.groups) + extra.sum::<usize>();
    let request = match request {
        RequestInfo::NonResource { path, verb } => path.len() + verb.len(),
        RequestInfo::Resource(request) => request.segments().iter().map(|segment| segment.len()).sum(),
    };
    size_of::<AuthorizationKey>() + user + request
}
