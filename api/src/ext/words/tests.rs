use std::fmt::{Debug, Display};
use std::str::FromStr;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use rstest::rstest;

use super::*;
use crate::crds::ALL_CRDS;

/// The `enum` of a field, by the kind and the path of the field.
fn schema_words(kind: &str, path: &str) -> Vec<String> {
    let crd = ALL_CRDS.iter().find(|crd| crd.kind == kind).unwrap();
    let crd: CustomResourceDefinition = serde_yaml_ng::from_str(crd.yaml).unwrap();
    let mut schema: JSONSchemaProps =
        crd.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
    for name in path.split('.') {
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = schema.items {
            schema = *items;
        }
        schema = schema.properties.unwrap().remove(name).unwrap();
    }
    schema.enum_.unwrap().into_iter().map(|word| word.0.as_str().unwrap().to_owned()).collect()
}

fn check<T>(all: &[T], kind: &str, path: &str)
where
    T: Copy + Display + Debug + FromStr<Err = UnknownWord> + PartialEq,
{
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(words, schema_words(kind, path), "{kind} {path}");
    for (word, text) in all.iter().zip(&words) {
        assert_eq!(text.parse::<T>().as_ref(), Ok(word));
    }
}

#[test]
fn the_enums_have_the_values_of_the_schema() {
    let pool = "VirtualMachinePool";
    check(ScaleDownPolicy::ALL, pool, "spec.scaleDownPolicy");
    check(ReclaimPolicy::ALL, pool, "spec.virtualDiskTemplates.reclaim.onScaleDown");
    for (kind, spec) in [(pool, "spec.virtualMachineTemplate.spec"), ("VirtualMachine", "spec")] {
        check(DeviceKind::ALL, kind, &format!("{spec}.blockDeviceRefs.kind"));
        check(RunPolicy::ALL, kind, &format!("{spec}.runPolicy"));
        check(RestartApprovalMode::ALL, kind, &format!("{spec}.disruptions.restartApprovalMode"));
    }
    check(MachinePhase::ALL, "VirtualMachine", "status.phase");
    check(DiskPhase::ALL, "VirtualDisk", "status.phase");
    check(ImagePhase::ALL, "VirtualImage", "status.phase");
    check(ImagePhase::ALL, "ClusterVirtualImage", "status.phase");
    check(OperationType::ALL, "VirtualMachineOperation", "spec.type");
    check(OperationPhase::ALL, "VirtualMachineOperation", "status.phase");
    check(AttachmentPhase::ALL, "VirtualMachineBlockDeviceAttachment", "status.phase");
}

#[test]
fn the_error_for_an_unknown_value_lists_the_known_ones() {
    let error = "Newest".parse::<ScaleDownPolicy>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""Newest" is not a scale-down policy; known are NewestFirst, OldestFirst, Explicit"#
    );
}

#[rstest]
#[case::running(MachinePhase::Running, true)]
#[case::a_live_migration_does_not_stop_the_guest(MachinePhase::Migrating, true)]
#[case::starting(MachinePhase::Starting, false)]
#[case::paused(MachinePhase::Pause, false)]
#[case::terminating(MachinePhase::Terminating, false)]
fn knows_whether_the_guest_runs(#[case] phase: MachinePhase, #[case] runs: bool) {
    assert_eq!(phase.runs(), runs);
}
