//! The machine template: its content, and when two templates are equal.

use serde_json::{Value, json};
use vmpool_platform::merge::Schema;

use super::objects::DvpMachineTemplate;

/// The spec of a machine.
///
/// A template that contains a default value equals one that omits it, whether or not the cluster's CRD fills
/// it in. The platform numbers the networks of a machine at its admission, and these numbers must be
/// preserved.
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

/// Optional names that the schema of machines rejects if they are empty. An empty name counts as absent.
const NAMES: [&str; 3] = ["virtualMachineClassName", "priorityClassName", "virtualMachineIPAddressName"];
/// The same for networks.
const NETWORK_NAMES: [&str; 3] = ["name", "virtualMachineMACAddressName", "ipAddressName"];

/// Metadata and spec of the template in a pool, without empty names.
pub(super) fn template_content(template: &DvpMachineTemplate) -> Value {
    let mut template = json!({ "metadata": template.metadata, "spec": template.spec });
    strip_empty(&mut template["spec"]);
    template
}

fn strip_empty(spec: &mut Value) {
    let strip = |object: &mut Value, names: &[&str]| {
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|name, value| value != "" || !names.contains(&name.as_str()));
        }
    };
    strip(spec, &NAMES);
    let networks = spec.get_mut("networks").and_then(Value::as_array_mut);
    networks.into_iter().flatten().for_each(|network| strip(network, &NETWORK_NAMES));
}

/// The template without empty names and without values that equal defaults of the schema.
pub(super) fn canonical_template(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(spec) = template.get_mut("spec") {
        strip_empty(spec);
        SPEC.strip_defaults(spec);
    }
    template
}
