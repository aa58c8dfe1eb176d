use std::fmt::{Debug, Display};
use std::str::FromStr;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};

use super::*;
use crate::crds::ALL_CRDS;

/// The `enum` of a field, by the kind and the path of the field.
fn schema_values(kind: &str, path: &str) -> Vec<String> {
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
    schema.enum_.unwrap().into_iter().map(|value| value.0.as_str().unwrap().to_owned()).collect()
}

fn check<T>(all: &[T], kind: &str, path: &str)
where
    T: Copy + Display + Debug + FromStr<Err = UnknownValue> + PartialEq,
{
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts, schema_values(kind, path), "{kind} {path}");
    for (value, text) in all.iter().zip(&texts) {
        assert_eq!(text.parse::<T>().as_ref(), Ok(value));
    }
}

#[test]
fn the_enums_have_the_values_of_the_schema() {
    let pool = "VirtualMachinePool";
    check(ScaleDownPolicy::ALL, pool, "spec.scaleDownPolicy");
    check(ImageRefreshMode::ALL, pool, "spec.imageRefresh");
    check(ReclaimPolicy::ALL, pool, "spec.virtualDiskTemplates.reclaim.onScaleDown");
    for (kind, spec) in [(pool, "spec.virtualMachineTemplate.spec"), ("VirtualMachine", "spec")] {
        check(DeviceKind::ALL, kind, &format!("{spec}.blockDeviceRefs.kind"));
        check(RunPolicy::ALL, kind, &format!("{spec}.runPolicy"));
    }
}

#[test]
fn the_error_for_an_unknown_value_lists_the_known_ones() {
    let error = "Newest".parse::<ScaleDownPolicy>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""Newest" is not a scale-down policy; known are NewestFirst, OldestFirst, Explicit"#
    );
}
