//! The names of the served subresources.

use vmpool_api::subresources::PoolSubresource;

/// The name of the subresource for targeted removal.
pub const REMOVAL: &str = PoolSubresource::ScaleDownWith.as_str();

/// The name of the subresource for claims.
pub const CLAIM: &str = PoolSubresource::Claim.as_str();
/// The name of the subresource for releases of claimed machines.
pub const RELEASE: &str = PoolSubresource::Release.as_str();

/// The name of the subresource with instance type and preference written out.
pub const EXPAND: &str = "expand-spec";
