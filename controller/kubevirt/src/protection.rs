//! What the protection of instance types and preferences reads of pools.

use serde_json::Value;
use vmpool_instancetype::pins::TEMPLATE;
use vmpool_instancetype::type_protection::ProtectedType;

use super::objects::KubeVirtPoolObject;
use super::template;

/// Whether a pool may need the object: its template names it or a volume, and machines are to use a copy. The
/// controller makes no copies for a pool whose spec it does not read.
pub fn may_need_type(pool: &Value, protected: &ProtectedType) -> bool {
    protected.may_be_needed_by_pool(pool) && !has_unreadable_spec(pool)
}

/// Whether the content of a revision of a pool has a copy for the template that the pool has now, which names
/// the object.
pub fn has_pinned_type(pool: &Value, content: &Value, protected: &ProtectedType) -> bool {
    let template = |spec: &Value| template::canonical_template(&spec[TEMPLATE]);
    protected.is_pinned(content) && template(content) == template(&pool["spec"])
}

/// Whether the controller does not read the spec of a pool.
fn has_unreadable_spec(pool: &Value) -> bool {
    serde_json::from_value::<KubeVirtPoolObject>(pool.clone()).is_ok_and(|pool| pool.spec_error().is_some())
}

#[cfg(test)]
mod tests;
