//! What was read for a decision, and what it needs next.

use std::collections::BTreeMap;

/// The reads without which a decision cannot go on. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs<R>(pub Vec<R>);

/// The result of a decision, or what it needs.
pub type Step<T, R> = Result<T, Needs<R>>;

/// What was read for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reads<R, A>(BTreeMap<R, A>);

impl<R, A> Default for Reads<R, A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R: Ord + Clone, A> Reads<R, A> {
    /// The answer to a read.
    ///
    /// # Errors
    /// It was not read.
    pub fn find(&self, read: &R) -> Step<&A, R> {
        self.0.get(read).ok_or_else(|| Needs(vec![read.clone()]))
    }

    /// Adds an answer. Returns the former one, which a driver never has.
    pub fn insert(&mut self, read: R, answer: A) -> Option<A> {
        self.0.insert(read, answer)
    }

    /// What was read.
    pub fn keys(&self) -> impl Iterator<Item = &R> {
        self.0.keys()
    }
}

/// All results, or the reads that any of them needs, without duplicates.
///
/// # Errors
/// A result needs reads.
pub fn join_steps<T, R: PartialEq>(steps: impl IntoIterator<Item = Step<T, R>>) -> Step<Vec<T>, R> {
    let (mut results, mut needs) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Ok(result) => results.push(result),
            Err(Needs(more)) => {
                for read in more {
                    if !needs.contains(&read) {
                        needs.push(read);
                    }
                }
            }
        }
    }
    if needs.is_empty() { Ok(results) } else { Err(Needs(needs)) }
}

/// Evaluates a decision with answers that are all known, such as those of a test.
///
/// # Panics
/// The decision needs a read again.
pub fn decide_with<R: Ord + Clone, A, T>(
    mut answer: impl FnMut(&R) -> A,
    mut decision: impl FnMut(&Reads<R, A>) -> Step<T, R>,
) -> T {
    let mut reads = Reads::default();
    loop {
        match decision(&reads) {
            Ok(result) => return result,
            Err(Needs(needs)) => {
                for read in needs {
                    let found = answer(&read);
                    assert!(reads.insert(read, found).is_none(), "a decision needs a read again");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
