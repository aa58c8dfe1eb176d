//! How long things last, all of it following from how long a serving certificate is valid.

use std::time::Duration;

/// The periods of self-signed certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A serving certificate, from the moment that it is made. It is replaced when a third of it is left.
    pub serving: Duration,
    /// An authority: four serving certificates. It is replaced when a third of it is left, which is more than one
    /// serving certificate.
    pub authority: Duration,
    /// How far certificates begin in the past, for clocks that are late: 15 minutes, less if they are short-lived.
    pub backdate: Duration,
    /// How long a bundle must have been in place before it is relied on: 10 minutes, less if they are short-lived.
    pub spread: Duration,
    /// The pause between passes when all is well: a minute, less if they are short-lived.
    pub period: Duration,
}

impl Timing {
    /// The periods that suit serving certificates of `validity`.
    pub fn new(validity: Duration) -> Self {
        Self {
            serving: validity,
            authority: validity * 4,
            backdate: Duration::from_mins(15).min(validity / 8),
            // So short-lived ones are for tests, on machines whose API servers may be slow to notice.
            spread: Duration::from_mins(10).min(validity / 5),
            period: Duration::from_mins(1).min(validity / 40),
        }
    }
}
