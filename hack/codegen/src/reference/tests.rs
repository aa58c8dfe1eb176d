use super::page;
use crate::schema::Crd;

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
                parts:
                  type: array
                  maxItems: 3
                  description: What it is made of.
                  items: {type: object, properties: {mode: {type: string, enum: [A, B], default: A, description: How.}}}
";
    let crd = Crd::new("things.yaml".to_owned(), serde_yaml_ng::from_str(yaml).unwrap()).unwrap();
    let page = page(&crd);
    for line in [
        "| API version | `example/v1` |",
        "| Size | with `-o wide` | `.spec.size` | How large. |",
        "| `spec.size` | quantity | yes |  |  | How large. |",
        "| `spec.share` | number or percentage |  |  |  | How many of them. |",
        "| `spec.parts` | list of object |  |  | most entries 3 | What it is made of. |",
        "| `spec.parts[].mode` | string |  | `A` | one of `A`, `B` | How. |",
        r"| `spec` | say a size | `self.size != '0' \|\| self.parts.size() > 0` |",
    ] {
        assert!(page.lines().any(|found| found == line), "no line {line}\nin\n{page}");
    }
}
