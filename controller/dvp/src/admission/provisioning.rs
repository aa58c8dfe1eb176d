//! Rules about the provisioning data of guests.

use serde_json::Value;
use vmpool_api::v1alpha2::virtual_machine::VirtualMachineProvisioning;
use vmpool_engine::admission::{RuleResult, Warning, refuse_value};

use super::rule::Rule;
use super::view::MACHINE;

/// Maximum size of inline user data, in bytes.
const LONGEST: usize = 2048;

/// First lines that identify formats of cloud-init.
const HEADERS: [&str; 10] = [
    "#!",
    "#cloud-config",
    "#cloud-boothook",
    "#include",
    "#include-once",
    "#part-handler",
    "#upstart-job",
    "## template: jinja",
    "Content-Type:",
    "MIME-Version:",
];

pub(super) fn check_provisioning(
    provisioning: Option<&VirtualMachineProvisioning>,
    warnings: &mut Vec<Warning>,
) -> RuleResult {
    let Some(provisioning) = provisioning else { return Ok(()) };
    let parts = [
        ("UserData", "userData", provisioning.user_data.is_some()),
        ("UserDataRef", "userDataRef", provisioning.user_data_ref.is_some()),
        ("SysprepRef", "sysprepRef", provisioning.sysprep_ref.is_some()),
    ];
    let kind = provisioning.r#type.as_str();
    let path = format!("{MACHINE}.provisioning.type");
    let Some((_, wanted, present)) = parts.iter().find(|(name, ..)| *name == kind) else {
        let known = "use UserData, UserDataRef or SysprepRef";
        return refuse_value(Rule::Provisioning, path, &Value::from(kind), "no such type", known);
    };
    if !present {
        return refuse_value(
            Rule::Provisioning,
            path,
            &Value::from(kind),
            format_args!("this type needs {wanted}"),
            format_args!("add {wanted}, or change type"),
        );
    }
    if let Some((_, other, _)) = parts.iter().find(|(name, _, present)| *name != kind && *present) {
        return refuse_value(
            Rule::Provisioning,
            path,
            &Value::from(kind),
            format_args!("this type takes no {other}"),
            format_args!("remove {other}, or change type"),
        );
    }
    match &provisioning.user_data {
        Some(text) => user_data(text, warnings),
        None => Ok(()),
    }
}

/// Messages never quote the text, because it can contain secrets.
fn user_data(text: &str, warnings: &mut Vec<Warning>) -> RuleResult {
    let path = format!("{MACHINE}.provisioning.userData");
    if text.len() > LONGEST {
        return refuse_value(
            Rule::LongUserData,
            path,
            &Value::from(format!("{} bytes", text.len())),
            format_args!("inline user data has at most {LONGEST} bytes"),
            "put it into a Secret and use type UserDataRef",
        );
    }
    let mut warn = |detail: &str| warnings.push(Warning::new(Rule::UserData, path.as_str(), detail));
    if !HEADERS.iter().any(|header| text.starts_with(header)) {
        warn(
            "cloud-init does not know what this is and ignores it; begin with a line such as \
             #cloud-config or #!/bin/sh",
        );
    } else if text.starts_with("#cloud-config") && !text.starts_with("#cloud-config-") && !is_mapping(text) {
        warn(
            "it begins with #cloud-config and is no YAML mapping, so cloud-init ignores it; check quotes \
             and indentation",
        );
    }
    Ok(())
}

/// A text with only comments is an empty mapping.
fn is_mapping(text: &str) -> bool {
    matches!(
        serde_yaml_ng::from_str::<serde_yaml_ng::Value>(text),
        Ok(serde_yaml_ng::Value::Mapping(_) | serde_yaml_ng::Value::Null)
    )
}
