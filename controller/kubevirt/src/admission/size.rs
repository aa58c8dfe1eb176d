//! The rule about the size of a pool.

use serde_json::Value;
use vmpool_engine::limits;

use super::findings::Findings;
use super::pool::{KubeVirtPoolView, TEMPLATE};
use super::rule::Rule;

pub(super) fn check_spec_size(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let size = pool.spec().to_string().len();
    if size > limits::POOL_SPEC {
        findings.refuse(
            Rule::SpecSize,
            TEMPLATE,
            &Value::from(format!("{} bytes", pool.template().to_string().len())),
            format_args!("spec takes {size} bytes of JSON, and the limit is {}", limits::POOL_SPEC),
            "shorten the template; cloud-init data can be in a Secret",
        );
    }
}
