//! The machine template: what it consists of, and when two of them are the same.

use serde_json::{Value, json};

use super::objects::MachineTemplate;
use crate::platform::merge::Schema;

/// The spec of a machine.
///
/// A template that spells a default out is the same as one that does not, whether or not the cluster's CRD fills it in.
/// Networks get a number when a machine is admitted, which must not be lost.
pub(super) const SPEC: Schema = Schema {
    defaults: &[
        ("/liveMigrationPolicy", r#""PreferSafe""#),
        ("/runPolicy", r#""AlwaysOnUnlessStoppedManually""#),
        ("/osType", r#""Generic""#),
        ("/bootloader", r#""BIOS""#),
        ("/enableParavirtualization", "true"),
        ("/terminationGracePeriodSeconds", "60"),
        ("/disruptions/restartApprovalMode", r#""Manual""#),
        ("/provisioning/userDataRef/kind", r#""Secret""#),
        ("/provisioning/sysprepRef/kind", r#""Secret""#),
    ],
    keyed: &[("/networks", &["type", "name"]), ("/usbDevices", &["name"]), ("/gpus", &["gpuClassName"])],
    unions: &["/provisioning"],
};

/// Metadata and spec of a template, as they stand in the pool.
pub(super) fn of(template: &MachineTemplate) -> Value {
    json!({ "metadata": template.metadata, "spec": template.spec })
}

/// The template without what equals the schema's defaults.
pub(super) fn canonical(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(spec) = template.get_mut("spec") {
        SPEC.strip_defaults(spec);
    }
    template
}
