//! The dry run of a machine: the API server and KubeVirt validate it, so that a pool whose machines would be
//! rejected is rejected itself.

use serde_json::{Value, json};
use vmpool_engine::admission::{DryRun, DryRunCause, DryRunResult};
use vmpool_engine::scale_up::names::ordinal_name;
use vmpool_platform::value::json_field;

use super::findings::Findings;
use super::pool::{KubeVirtPoolView, TEMPLATE};
use super::rule::Rule;
use crate::keys::{API_VERSION, MACHINE_KIND};
use crate::machine::{self, Metadata, RevisionTemplate};

/// The maximum number of causes that a response repeats.
const MAX_CAUSES: usize = 10;

/// The first machine of a pool.
///
/// A machine with an instance type or a preference is not validated: the pool may be created before them, and
/// the machines then get copies that do not exist yet.
pub(super) fn machine_dry_run(pool: KubeVirtPoolView<'_>) -> Option<DryRun> {
    let is_named = |name: &str| !json_field(pool.machine(), name).is_null();
    if is_named("instancetype") || is_named("preference") {
        return None;
    }
    let names = pool.name_generation();
    let template = RevisionTemplate { content: pool.template(), names, pins: &Value::Null };
    let Metadata { labels, annotations } = machine::template_metadata(pool.template());
    // If a machine has the name, the API server reports that after it has validated the object.
    let name = ordinal_name(pool.name(), 0);
    let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": MACHINE_KIND,
        "metadata": metadata,
        "spec": machine::named_machine_spec(template, &name, 0),
    });
    Some(DryRun { api_version: API_VERSION, plural: "virtualmachines", object })
}

/// Repeats the causes, with the paths of the fields in the pool.
pub(super) fn check_dry_run_result(
    pool: KubeVirtPoolView<'_>,
    result: &DryRunResult,
    findings: &mut Findings,
) {
    match result {
        DryRunResult::Accepted => {}
        DryRunResult::Invalid(causes) => {
            for DryRunCause { field, message } in causes.iter().take(MAX_CAUSES) {
                let is_path = field == "spec" || field.starts_with("spec.") || field.starts_with("metadata.");
                let path = if is_path { format!("{TEMPLATE}.{field}") } else { TEMPLATE.to_owned() };
                let value = if is_path { value_at(pool.template(), field) } else { pool.template() };
                let way_out = "the API server would reject every machine of the pool";
                findings.refuse(Rule::MachineRejected, path, value, message, way_out);
            }
        }
        DryRunResult::Failed(error) => {
            let detail = format!("a machine of the pool could not be validated: {error}");
            findings.warn(Rule::MachineNotValidated, TEMPLATE, detail);
        }
    }
}

/// The value at a path such as `spec.template.spec.volumes[0].name`.
fn value_at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split(['.', '[']).fold(value, |value, name| match name.strip_suffix(']') {
        Some(index) => index.parse::<usize>().map_or(&Value::Null, |index| &value[index]),
        None => json_field(value, name),
    })
}
