use std::collections::BTreeSet;

use rstest::rstest;

use super::*;

fn patterns(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            found.extend(map.get("pattern").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| patterns(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| patterns(value, found)),
        _ => {}
    }
}

#[test]
fn every_pattern_of_the_definition_is_known() {
    assert!(!POOL.is_null(), "the definition has a schema of the spec");
    let mut found = BTreeSet::new();
    patterns(&POOL, &mut found);
    let known: BTreeSet<String> = PATTERNS.iter().map(|known| known.regex.to_owned()).collect();
    assert_eq!(found, known);
}

#[rstest]
#[case("https://mirror.example.com/images/debian-13.qcow2", true)]
#[case("http://10.0.0.1:8080/a%20b.img?x=1&y=(2)", true)]
#[case("https://[2001:db8::1]/a", true)]
#[case("https://a/b#c", false)]
#[case("https://a/~me", false)]
#[case("https://a/{b}", false)]
#[case("https://a/b|c", false)]
#[case("https://a/\"b\"", false)]
#[case("https://a/`b`", false)]
#[case("https://a/b c", false)]
#[case("https://a/\u{e9}", false)]
#[case("ftp://a/b", false)]
#[case("https://", false)]
#[case("https:///a", false)]
fn an_address(#[case] text: &str, #[case] accepted: bool) {
    assert_eq!(is_url(text), accepted);
}

const HEX: &str = "78be890d71dde316c412da2ce8332ba47b9ce7a29d573801d2777e01aa20b9b5";

#[rstest]
#[case("debian", true)]
#[case("debian:13", true)]
#[case("registry.example.com/images/debian:13", true)]
#[case("localhost/debian", true)]
#[case("localhost:5000/a/b", true)]
#[case("my_reg:5000/x", true)]
#[case("MyReg:5000/x", true)]
#[case("Reg.Example.com/x", true)]
#[case("Reg/x", false)]
#[case("x/Y", false)]
#[case("x:", false)]
#[case("x:-a", false)]
#[case("", false)]
#[case("a//b", false)]
#[case("host:port/x", false)]
fn an_image(#[case] text: &str, #[case] accepted: bool) {
    assert_eq!(is_image(text), accepted);
    assert_eq!(is_image(&format!("{text}@sha256:{HEX}")), accepted);
    assert!(!is_image(&format!("{text}@256:{HEX}")), "an algorithm begins with a letter");
    assert!(!is_image(&format!("{text}@sha256:{}", &HEX[..31])), "a digest has at least 32 digits");
}

/// The schema of the spec of another kind.
fn of_kind(kind: &str) -> Value {
    crds::ALL_CRDS.iter().find(|crd| crd.kind == kind).map(|crd| pool_spec_schema(crd.yaml)).unwrap()
}

/// The findings of the machine schema in the machines of a pool. Empty strings of optional fields are omitted
/// first.
pub(crate) fn machine_schema(pool: &Value) -> RuleResult {
    check_schema_value(&of_kind("VirtualMachine"), "spec", &pool["spec"]["virtualMachineTemplate"]["spec"])
}

/// The findings of the disk schema in the disks of a pool. The type of a data source is required by a CEL
/// rule.
pub(crate) fn disk_schema(pool: &Value) -> RuleResult {
    let schema = of_kind("VirtualDisk");
    for template in json_entries(&pool["spec"]["virtualDiskTemplates"]) {
        let source = json_at_path(template, &["spec", "dataSource"]);
        if source.is_object() && json_field(source, "type").is_null() {
            return refuse_schema_value("spec.dataSource.type", &Value::Null, "it is required", "add it");
        }
        check_schema_value(&schema, "spec", json_field(template, "spec"))?;
    }
    Ok(())
}
