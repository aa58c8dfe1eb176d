//! Periods and intervals, derived from the validity of a serving certificate.

use std::time::Duration;

/// The periods of self-signed certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The validity of a serving certificate. It is replaced when a third is left.
    pub serving: Duration,
    /// The validity of an authority: four times that of a serving certificate. It is replaced when a third is
    /// left, which is longer than the validity of a serving certificate.
    pub authority: Duration,
    /// How far the validity starts in the past, for clients with slow clocks: 15 minutes, or less for short
    /// validities.
    pub backdate: Duration,
    /// How long the objects must contain a bundle before its new authority signs a serving certificate: 10
    /// minutes, or less for short validities.
    pub spread: Duration,
    /// The interval between passes without failures: one minute, or less for short validities.
    pub period: Duration,
}

impl Timing {
    /// The periods for serving certificates of this validity.
    pub fn new(validity: Duration) -> Self {
        Self {
            serving: validity,
            authority: validity * 4,
            backdate: Duration::from_mins(15).min(validity / 8),
            // Short validities are for tests, with API servers that may use a new bundle late.
            spread: Duration::from_mins(10).min(validity / 5),
            period: Duration::from_mins(1).min(validity / 40),
        }
    }
}
