//! The crates that are platforms, and those of them that the registry does not list. Programs take the
//! platforms from its table, so a crate of a platform without a row compiles and is never used.

use serde_json::Value;

use crate::verify::packages;

/// The file with the table.
pub(super) const TABLE: &str = "controller/platforms/src/registry.rs";

/// The crate with the traits, on which each platform depends.
pub(super) const INTERFACE: &str = "vmpool-platform";

/// The crate with the table.
pub(super) const REGISTRY: &str = "vmpool-platforms";

/// The crates that are no platform: the one with the table, and the rules of instance types, which are
/// written in the interface's words.
const NO_PLATFORMS: [&str; 2] = [REGISTRY, "vmpool-instancetype"];

/// The crates of platforms in a workspace's metadata that the text of the table does not name.
pub(super) fn unlisted_platforms(metadata: &Value, table: &str) -> Vec<String> {
    platform_names(metadata)
        .into_iter()
        .filter(|name| !table.contains(&format!("=> {}::", name.replace('-', "_"))))
        .map(|name| format!("{name} depends on {INTERFACE} and has no row in {TABLE}"))
        .collect()
}

/// The names of the crates that are platforms.
pub(super) fn platform_names(metadata: &Value) -> Vec<&str> {
    platform_packages(metadata).filter_map(|package| package["name"].as_str()).collect()
}

/// The packages that are platforms.
pub(super) fn platform_packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    packages::json_list(metadata, "packages").iter().filter(|package| {
        let name = package["name"].as_str().unwrap_or_default();
        !NO_PLATFORMS.contains(&name) && depends_on_interface(package)
    })
}

/// Whether a package has the interface as a normal dependency.
fn depends_on_interface(package: &Value) -> bool {
    packages::json_list(package, "dependencies")
        .iter()
        .any(|dependency| dependency["kind"].is_null() && dependency["name"] == INTERFACE)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::a_listed_platform("vmpool-dvp", json!(null), 0)]
    #[case::an_unlisted_one("vmpool-example", json!(null), 1)]
    #[case::a_dependency_of_tests("vmpool-webhook", json!("dev"), 0)]
    #[case::the_registry("vmpool-platforms", json!(null), 0)]
    fn each_platform_has_a_row(#[case] name: &str, #[case] kind: Value, #[case] found: usize) {
        let dependencies = json!([{ "name": "vmpool-platform", "kind": kind }]);
        let metadata = json!({ "packages": [{ "name": name, "dependencies": dependencies }] });
        assert_eq!(unlisted_platforms(&metadata, "Dvp => vmpool_dvp::Dvp,").len(), found);
    }
}
