use rstest::rstest;

use super::crd_problems;
use crate::schema::ResolvedCrd;

/// A CRD whose schema has one field `spec`, with this content.
fn crd(spec: &str) -> ResolvedCrd {
    let yaml = format!(
        "metadata: {{name: things.example}}
spec:
  group: example
  scope: Cluster
  names: {{kind: Thing, plural: things}}
  versions:
    - name: v1
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          description: A thing.
          properties:
            metadata: {{type: object}}
            spec: {spec}"
    );
    ResolvedCrd::new("things.yaml".to_owned(), serde_yaml_ng::from_str(&yaml).unwrap()).unwrap()
}

#[test]
fn a_correct_crd_has_no_problems() {
    let spec = "{type: object, description: Wishes., required: [size], properties: {size: {type: string, description: How large.}}}";
    assert_eq!(crd_problems(&crd(spec)), Vec::<String>::new());
}

#[rstest]
#[case::no_description("{type: string}", "spec: has no description")]
#[case::no_period(
    "{type: string, description: Wishes}",
    "spec: the description is not a sentence, it lacks a period"
)]
#[case::brackets(
    "{type: string, description: 'A <name>.'}",
    "spec: the description has brackets, which break the Rust docs"
)]
#[case::a_missing_property(
    "{type: object, description: Wishes., required: [size]}",
    "spec: requires size, which it does not have"
)]
#[case::an_untyped_list(
    "{type: array, description: Wishes., items: {type: string}}",
    "spec: x-kubernetes-list-type is missing"
)]
#[case::a_field_in_a_list(
    "{type: array, x-kubernetes-list-type: atomic, description: Wishes., items: {type: object, properties: {a: {type: string}}}}",
    "spec[].a: has no description"
)]
#[case::a_rule_without_a_message(
    "{type: string, description: Wishes., x-kubernetes-validations: [{rule: 'true'}]}",
    "spec: a rule has no message"
)]
#[case::a_reserved_word(
    "{type: string, description: Wishes., x-kubernetes-validations: [{rule: self.namespace != 'a', message: no}]}",
    "spec: a rule needs the escaped form of a field, __namespace__"
)]
#[case::a_costly_rule(
    "{type: array, x-kubernetes-list-type: atomic, description: Wishes., items: {x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: self != 0, message: no}]}}",
    "spec[]: a rule reads a value in a list that is text or a number"
)]
fn finds(#[case] spec: &str, #[case] problem: &str) {
    assert_eq!(crd_problems(&crd(spec)), [format!("things.yaml: {problem}")]);
}
