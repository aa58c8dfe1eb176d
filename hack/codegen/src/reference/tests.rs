use super::{render_index_page, render_kind_page};
use crate::{families::FAMILIES, schema::ResolvedCrd};

#[test]
fn a_page_lists_columns_fields_and_rules() {
    let yaml = r"
metadata: {name: things.example}
spec:
  group: example
  scope: Namespaced
  names: {kind: Thing, plural: things, shortNames: [th]}
  versions:
    - name: v1
      storage: true
      additionalPrinterColumns:
        - {name: Size, type: string, jsonPath: .spec.size, priority: 1, description: How large.}
      schema:
        openAPIV3Schema:
          type: object
          description: A thing.
          properties:
            spec:
              type: object
              description: Wishes.
              required: [size]
              x-kubernetes-validations: [{rule: self.size != '0' || self.parts.size() > 0, message: say a size}]
              properties:
                size: {x-kubernetes-int-or-string: true, pattern: '[0-9]+Gi', description: How large.}
                share: {x-kubernetes-int-or-string: true, description: How many of them.}
                free: {x-kubernetes-int-or-string: true, minimum: 0, pattern: '^[0-9]+%$', description: How many are free.}
                parts:
                  type: array
                  maxItems: 3
                  description: What it is made of.
                  items: {type: object, properties: {mode: {type: string, enum: [A, B], default: A, description: How.}}}
";
    let crd = ResolvedCrd::new("things.yaml".to_owned(), serde_yaml_ng::from_str(yaml).unwrap()).unwrap();
    let page = render_kind_page(&crd);
    for line in [
        "| API version | `example/v1` |",
        "| Size | with `-o wide` | `.spec.size` | How large. |",
        "| `spec.size` | quantity | yes |  |  | How large. |",
        "| `spec.share` | number or percentage |  |  |  | How many of them. |",
        "| `spec.free` | number or percentage |  |  | at least 0; matches `^[0-9]+%$` | How many are free. |",
        "| `spec.parts` | list of object |  |  | most entries 3 | What it is made of. |",
        "| `spec.parts[].mode` | string |  | `A` | one of `A`, `B` | How. |",
        r"| `spec` | say a size | `self.size != '0' \|\| self.parts.size() > 0` |",
    ] {
        assert!(page.lines().any(|found| found == line), "no line {line}\nin\n{page}");
    }
}

const TWO_VERSIONS: &str = r"
metadata: {name: things.example}
spec:
  group: example
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
    - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, description: A thing.}}}
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: A thing.}}}
    - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object, description: A thing.}}}
";

#[test]
fn a_page_lists_the_versions_that_are_served() {
    let crd =
        ResolvedCrd::new("things.yaml".to_owned(), serde_yaml_ng::from_str(TWO_VERSIONS).unwrap()).unwrap();
    let page = render_kind_page(&crd);
    let versions: Vec<&str> = page.lines().filter(|line| line.contains("`example/")).collect();
    assert_eq!(versions, ["| API version | `example/v1` |", "| Also served as | `example/v1beta1` |"]);
}

#[test]
fn the_index_has_a_section_for_each_family() {
    let crd = |source: &str| {
        ResolvedCrd::new(source.to_owned(), serde_yaml_ng::from_str(TWO_VERSIONS).unwrap()).unwrap()
    };
    let families =
        [(&FAMILIES[0], vec![crd("things.yaml")]), (&FAMILIES[1], vec![crd("kubevirt/things.yaml")])];
    let index = render_index_page(&families);
    let first = index.find("| [Thing](things.md) | A thing. |").unwrap();
    let heading = index.find("## KubeVirt").unwrap();
    let second = index.find("| [Thing](kubevirt/things.md) | A thing. |").unwrap();
    assert!(first < heading && heading < second, "{index}");
}
