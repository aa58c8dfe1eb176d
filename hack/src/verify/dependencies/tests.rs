use rstest::rstest;
use serde_json::json;

use super::license::is_allowed;
use super::*;

#[rstest]
#[case::one("MIT", true)]
#[case::another("GPL-3.0-only", false)]
#[case::one_of_two("GPL-3.0-only OR MIT", true)]
#[case::the_old_spelling("MIT/Apache-2.0", true)]
#[case::both("MIT AND Apache-2.0", true)]
#[case::both_and_one_is_not("MIT AND GPL-3.0-only", false)]
#[case::and_binds_closer("MIT OR Apache-2.0 AND GPL-3.0-only", true)]
#[case::parentheses("(MIT OR Apache-2.0) AND GPL-3.0-only", false)]
#[case::an_exception("Apache-2.0 WITH LLVM-exception", true)]
#[case::an_exception_that_is_not_listed("MIT WITH LLVM-exception", false)]
#[case::unreadable("MIT OR", false)]
#[case::unreadable("(MIT", false)]
#[case::unreadable("MIT MIT", false)]
#[case::empty("", false)]
fn a_license_expression_is_evaluated(#[case] expression: &str, #[case] expected: bool) {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
}

fn package(name: &str, license: &str, source: Option<&str>) -> Value {
    json!({
        "name": name, "version": "1.0.0", "id": name, "license": license, "source": source, "dependencies": [],
    })
}

#[test]
fn every_kind_of_violation_is_found() {
    let policy = "[graph]\ntargets = []\n[licenses]\nallow = [\"MIT\"]\n[bans]\n\
                  deny = [{ crate = \"old\", wrappers = [\"b\"], reason = \"use new\" }]";
    let policy: Policy = toml::from_str(policy).unwrap();
    let mut ours = package("ours", "", None);
    ours["dependencies"] =
        json!([{ "name": "wild", "req": "*" }, { "name": "path", "req": "*", "path": "/a" }]);
    let packages = [
        ours,
        package("a", "MIT", Some(REGISTRY)),
        package("b", "MIT", Some(REGISTRY)),
        package("git", "MIT", Some("git+https://example.com")),
        package("gpl", "GPL-3.0-only", Some(REGISTRY)),
        package("old", "MIT", Some(REGISTRY)),
    ];
    let uses = |user: &str, used: &str| json!({ "id": user, "dependencies": [used] });
    let mut metadata =
        json!({ "packages": packages, "resolve": { "nodes": [uses("b", "old"), uses("a", "old")] } });
    assert_eq!(
        violations(&policy, &metadata),
        [
            "ours 1.0.0: the dependency wild has no version",
            "git 1.0.0: comes from git+https://example.com",
            "gpl 1.0.0: the license is GPL-3.0-only",
            "old 1.0.0: a must not use it: use new",
        ]
    );
    metadata["packages"] =
        json!([package("b", "MIT", Some(REGISTRY)), package("old", "MIT", Some(REGISTRY))]);
    assert_eq!(violations(&policy, &metadata), Vec::<String>::new(), "a wrapper may use it");
}
