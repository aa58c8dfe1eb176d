//! The served API groups.

use vmpool_platforms::removal::RemovalApi;

/// The name of the subresource for targeted removal.
pub const REMOVAL: &str = "scaledownwith";

/// The name of the subresource for claims.
pub const CLAIM: &str = "claim";
/// The name of the subresource for releases of claimed machines.
pub const RELEASE: &str = "release";

/// The name of the subresource with instance type and preference written out.
pub const EXPAND: &str = "expand-spec";

/// The served API groups.
pub type Apis = &'static [RemovalApi];

/// The API with this group and version.
pub(crate) fn find(apis: Apis, group: &str, version: &str) -> Option<&'static RemovalApi> {
    apis.iter().find(|api| api.group == group && api.version == version)
}
