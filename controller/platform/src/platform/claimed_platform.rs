//! What claims need of a platform.

use serde_json::Value;

use super::Platform;

/// What claims read of the stored objects of a platform, in addition to [`Platform`].
pub trait ClaimedPlatform: Platform {
    /// The label selector of instances that belong to pools; `None` on a platform whose machines tell which
    /// revision their guests have.
    const INSTANCE_SELECTOR: Option<&'static str>;

    /// The label selector of the machines of the pool with this UID; `None` if labels do not tell them apart.
    fn machine_selector(pool_uid: &str) -> Option<String>;

    /// Whether a stored revision of the pool has the template that the pool has.
    fn has_template_of(pool: &Value, revision: &Value) -> bool;
}
