//! The names of the served subresources.

/// The name of the subresource for targeted removal.
pub const REMOVAL: &str = "scaledownwith";

/// The name of the subresource for claims.
pub const CLAIM: &str = "claim";
/// The name of the subresource for releases of claimed machines.
pub const RELEASE: &str = "release";

/// The name of the subresource with instance type and preference written out.
pub const EXPAND: &str = "expand-spec";
