//! Rules about the name of a pool. They apply only to creates, because a name cannot change.

use serde_json::Value;

use super::findings::Findings;
use super::pool::KubeVirtPoolView;
use super::rule::Rule;

/// The name of a revision has at least two more characters, and at most 63.
const LONGEST: usize = 61;
/// Up to this length, the name of a revision also fits with a generation of ten digits.
const COMFORTABLE: usize = 52;

pub(super) fn check_pool_name(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let name = pool.name();
    let length = name.chars().count();
    if length > LONGEST {
        findings.refuse(
            Rule::NameLength,
            "metadata.name",
            &Value::from(name),
            format_args!(
                "the name of a pool has at most {LONGEST} characters, because the names of its revisions add at least 2 and \
                 have at most 63, and this name has {length}"
            ),
            "use a shorter name",
        );
    } else if length > COMFORTABLE {
        let detail = format!(
            "it has {length} characters, so the names of revisions are shortened with a hash when the generation grows; \
             to avoid this, choose a name of at most {COMFORTABLE}"
        );
        findings.warn(Rule::LongName, "metadata.name", detail);
    }
}
