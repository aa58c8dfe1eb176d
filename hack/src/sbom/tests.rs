use cyclonedx_bom::models::bom::Bom;
use cyclonedx_bom::validation::Validate as _;

use super::*;

const TREE: &str = "0|web v0.1.0 (/src/web)|Apache-2.0|\n1|a v1.0.0|MIT/Apache-2.0|\n\
                    2|b v2.0.0+native|MIT|\n1|b v2.0.0+native|MIT| (*)\n1|c v0.3.0 (proc-macro)||\n";
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n\n\
                    [[package]]\nname = \"web\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";

#[test]
fn a_bill_lists_each_crate_once_with_license_checksum_and_dependencies() {
    let bill = compose("vmpool-web", TREE, &checksums(LOCK)).unwrap();

    let component = &bill["metadata"]["component"];
    assert_eq!((&component["name"], &component["type"]), (&json!("vmpool-web"), &json!("application")));
    let names = bill["components"].as_array().unwrap().iter().map(|component| &component["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c"]);
    let a = &bill["components"][0];
    assert_eq!(a["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(a["hashes"], json!([{ "alg": "SHA-256", "content": "00ff" }]));
    assert_eq!(bill["components"][1]["purl"], "pkg:cargo/b@2.0.0%2Bnative");
    assert_eq!(bill["components"][2].get("licenses"), None);
    let dependencies = json!([
        { "ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@2.0.0%2Bnative"] },
        { "ref": "pkg:cargo/b@2.0.0%2Bnative", "dependsOn": [] },
        { "ref": "pkg:cargo/c@0.3.0", "dependsOn": [] },
        { "ref": "pkg:cargo/web@0.1.0", "dependsOn": [
            "pkg:cargo/a@1.0.0", "pkg:cargo/b@2.0.0%2Bnative", "pkg:cargo/c@0.3.0",
        ] },
    ]);
    assert_eq!(bill["dependencies"], dependencies);
}

#[test]
fn an_unknown_output_of_cargo_is_an_error() {
    for tree in ["", "web v0.1.0\n", "x|web v0.1.0|MIT|\n", "0|web|MIT|\n"] {
        assert!(compose("vmpool-web", tree, &BTreeMap::new()).is_err(), "{tree:?}");
    }
}

/// A test binary has the dependencies of a real program, so that every license and version is one that the
/// format allows.
#[test]
fn the_bill_of_each_program_is_valid_and_repeatable() {
    let workspace = Workspace::locate().unwrap();
    for (program, package) in PROGRAMS {
        let made = || bill(&workspace, program, package, "x86_64-unknown-linux-musl").unwrap();
        let bill = made();
        assert_eq!(bill, made(), "the same sources give the same bill");
        let parsed = Bom::parse_from_json(bill.to_string().as_bytes()).unwrap();
        let result = parsed.validate_version(cyclonedx_bom::prelude::SpecVersion::V1_5);
        assert!(result.passed(), "{program}: {result:?}");
        let has = |name: &str| {
            bill["components"].as_array().unwrap().iter().any(|component| component["name"] == name)
        };
        assert!(has("rustls") && has("vmpool-engine"), "{program} links both");
        assert!(!has("proptest"), "{program} does not link crates of tests");
    }
}
