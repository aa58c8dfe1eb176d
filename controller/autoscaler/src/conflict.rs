//! Other objects that scale the pool of an autoscaler.

use jiff::Timestamp;
use vmpool_api::ObjectId;

use crate::limits::AutoscaledPool;

/// An autoscaler of a pool, as far as conflicts need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscalerIdentity {
    /// Name and UID.
    pub id: ObjectId,
    /// When the API server created it.
    pub created: Option<Timestamp>,
    /// The pool that it names.
    pub pool: AutoscaledPool,
}

/// A HorizontalPodAutoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpaTarget {
    /// Name of the HorizontalPodAutoscaler.
    pub name: String,
    /// The object that it scales.
    pub target: AutoscaledPool,
}

/// Another object that scales the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A HorizontalPodAutoscaler with this name.
    HorizontalPodAutoscaler(String),
    /// An older PoolAutoscaler with this name.
    OlderAutoscaler(String),
}

/// Finds another object of the namespace that scales the pool. Of several autoscalers the oldest scales it.
pub fn find_conflict<'a>(
    own: &AutoscalerIdentity,
    autoscalers: impl IntoIterator<Item = &'a AutoscalerIdentity>,
    hpas: impl IntoIterator<Item = &'a HpaTarget>,
) -> Option<Conflict> {
    let hpa = hpas.into_iter().filter(|hpa| hpa.target == own.pool).map(|hpa| &hpa.name).min();
    let age = |autoscaler: &AutoscalerIdentity| (autoscaler.created, autoscaler.id.uid.clone());
    let is_older = |other: &&AutoscalerIdentity| {
        other.pool == own.pool && other.id.uid != own.id.uid && age(other) < age(own)
    };
    let oldest = || autoscalers.into_iter().filter(is_older).min_by_key(|other| age(other));
    hpa.map(|name| Conflict::HorizontalPodAutoscaler(name.clone()))
        .or_else(|| oldest().map(|other| Conflict::OlderAutoscaler(other.id.name.to_string())))
}

#[cfg(test)]
mod tests;
