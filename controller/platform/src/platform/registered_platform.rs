//! What the registry needs of a platform.

use std::sync::Arc;

use vmpool_engine::admission::Rules;

use super::{ClaimedPlatform, ClientPlatform};
use crate::admission::AdmissionSettings;
use crate::removal_api::{ExpansionApi, ReferenceApis, RemovalApi};

/// A platform that programs can select: how flags call it, and what is served for its pools.
pub trait RegisteredPlatform: ClientPlatform + ClaimedPlatform {
    /// The product, for the help of flags.
    const PRODUCT: &'static str;

    /// The help of the value that makes the controller reconcile its pools: the product, its group of pools,
    /// and what the user must know before.
    const RECONCILED: &'static str;

    /// The served APIs of targeted removal and of claims.
    const REMOVAL_APIS: &'static [RemovalApi];

    /// The served APIs of expansion.
    const EXPANSION_APIS: &'static [ExpansionApi] = &[];

    /// The APIs in a group of the platform that are served in a cluster without the platform.
    const REFERENCE_APIS: Option<ReferenceApis> = None;

    /// The rules of admission for its pools, with the paths of the webhook.
    fn admission_rules(settings: &AdmissionSettings) -> Arc<dyn Rules>;
}
