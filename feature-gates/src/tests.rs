use rstest::rstest;

use super::*;

const fn gate(name: &'static str, stage: FeatureStage, default: bool, locked: bool) -> Gate {
    Gate { name, stage, default, locked, since: "0.1", description: "Something" }
}

fn registry() -> GateRegistry {
    GateRegistry::new([
        gate("Fresh", FeatureStage::Alpha, false, false),
        gate("Young", FeatureStage::Alpha, false, false),
        gate("Barred", FeatureStage::Alpha, false, true),
        gate("Granted", FeatureStage::Alpha, true, true),
        gate("Ripe", FeatureStage::Beta, true, false),
        gate("Done", FeatureStage::Ga, true, false),
        gate("Old", FeatureStage::Deprecated, false, false),
    ])
}

fn on(text: &str) -> Vec<&'static str> {
    let gates = FeatureGates::parse(&registry(), text).unwrap();
    let registry = registry();
    registry
        .gates()
        .iter()
        .map(|gate| gate.name)
        .filter(|name| gates.enabled_by_name(name) == Some(true))
        .collect()
}

#[rstest]
#[case::an_empty_value_gives_the_defaults("", &["Done", "Granted", "Ripe"])]
#[case::a_gate_is_turned_on("Fresh=true", &["Done", "Fresh", "Granted", "Ripe"])]
#[case::a_gate_is_turned_off("Ripe=false", &["Done", "Granted"])]
#[case::blanks_and_a_last_comma_do_not_matter(" Fresh = true , Ripe=false,", &["Done", "Fresh", "Granted"])]
#[case::all_spellings_of_a_bool("Fresh=1,Young=T,Ripe=F,Done=0", &["Fresh", "Granted", "Young"])]
#[case::the_last_value_takes_effect("Fresh=true,Fresh=false,Young=false,Young=true", &["Done", "Granted", "Ripe", "Young"])]
#[case::all_alpha_skips_locked_gates("AllAlpha=true", &["Done", "Fresh", "Granted", "Ripe", "Young"])]
#[case::all_alpha_off_skips_locked_gates("AllAlpha=false", &["Done", "Granted", "Ripe"])]
#[case::a_gate_overrides_all_alpha_before_it("AllAlpha=true,Fresh=false", &["Done", "Granted", "Ripe", "Young"])]
#[case::a_gate_overrides_all_alpha_after_it("Fresh=false,AllAlpha=true", &["Done", "Granted", "Ripe", "Young"])]
#[case::a_locked_gate_may_be_set_to_its_value("Granted=true,Barred=false", &["Done", "Granted", "Ripe"])]
#[case::all_beta_means_beta_only("AllBeta=false", &["Done", "Granted"])]
#[case::the_last_all_alpha_takes_effect("AllAlpha=true,AllAlpha=false", &["Done", "Granted", "Ripe"])]
fn values(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(on(text), expected);
}

#[rstest]
#[case::a_misspelt_gate(
    "Frsh=true",
    "unknown feature gate `Frsh`, did you mean `Fresh`?; known gates: AllAlpha, AllBeta, Barred, Done, Fresh, Granted, Old, Ripe, Young"
)]
#[case::a_gate_in_the_wrong_case(
    "allalpha=true",
    "unknown feature gate `allalpha`, did you mean `AllAlpha`?; known gates: AllAlpha, AllBeta, Barred, Done, Fresh, Granted, Old, Ripe, Young"
)]
#[case::a_gate_without_a_similar_name(
    "Teleport=true",
    "unknown feature gate `Teleport`; known gates: AllAlpha, AllBeta, Barred, Done, Fresh, Granted, Old, Ripe, Young"
)]
#[case::an_unknown_gate_without_value(
    "Teleport",
    "unknown feature gate `Teleport`; known gates: AllAlpha, AllBeta, Barred, Done, Fresh, Granted, Old, Ripe, Young"
)]
#[case::a_gate_locked_off(
    "Barred=true",
    "feature gate `Barred` is locked to false in this build and cannot be set to true"
)]
#[case::a_gate_locked_on(
    "Granted=false",
    "feature gate `Granted` is locked to true in this build and cannot be set to false"
)]
#[case::no_bool("Fresh=yes", "feature gate `Fresh` has the value `yes`: write Fresh=true or Fresh=false")]
#[case::an_empty_value("Fresh=", "feature gate `Fresh` has the value ``: write Fresh=true or Fresh=false")]
#[case::no_value("Fresh", "feature gate `Fresh` has no value: write Fresh=true or Fresh=false")]
#[case::no_bool_for_a_group(
    "AllAlpha=on",
    "feature gate `AllAlpha` has the value `on`: write AllAlpha=true or AllAlpha=false"
)]
fn errors(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(FeatureGates::parse(&registry(), text).unwrap_err().to_string(), expected);
}

#[test]
fn the_pool_gate_is_alpha_off_and_unlocked_in_the_open_build() {
    let known = GateRegistry::known();
    let gate = known.get("VirtualMachinePool").unwrap();
    assert_eq!((gate.stage, gate.default, gate.locked), (FeatureStage::Alpha, false, false));
    assert!(!FeatureGates::defaults(&known).enabled(Feature::VirtualMachinePool));
    assert!(
        FeatureGates::parse(&known, "VirtualMachinePool=true").unwrap().enabled(Feature::VirtualMachinePool)
    );
}

#[rstest]
#[case::off_and_unlocked(false, false, "VirtualMachinePool=true", Some(true))]
#[case::off_and_locked(false, true, "VirtualMachinePool=true", None)]
#[case::off_and_locked_to_alpha(false, true, "AllAlpha=true", Some(false))]
#[case::on_and_locked(true, true, "", Some(true))]
#[case::on_and_locked_against_off(true, true, "VirtualMachinePool=false", None)]
fn an_edition_sets_the_attributes(
    #[case] default: bool,
    #[case] locked: bool,
    #[case] text: &str,
    #[case] enabled: Option<bool>,
) {
    let edition = GateRegistry::known().with(Feature::VirtualMachinePool, default, locked);
    let gates = FeatureGates::parse(&edition, text);
    assert_eq!(gates.ok().map(|gates| gates.enabled(Feature::VirtualMachinePool)), enabled);
}

#[rstest]
#[case::default_on("VirtualMachinePool=true", true, false)]
#[case::locked_on("VirtualMachinePool=true:locked", true, true)]
#[case::locked_off("VirtualMachinePool=false:locked", false, true)]
#[case::untouched("", false, false)]
fn a_build_sets_the_attributes(#[case] text: &str, #[case] default: bool, #[case] locked: bool) {
    let build = GateRegistry::known().with_attributes(text).unwrap();
    assert_eq!(build, GateRegistry::known().with(Feature::VirtualMachinePool, default, locked));
}

#[rstest]
#[case::an_unknown_gate("Pool=true")]
#[case::a_wrong_lock("VirtualMachinePool=true:shut")]
#[case::no_value("VirtualMachinePool")]
fn a_build_with_wrong_attributes_is_refused(#[case] text: &str) {
    assert!(GateRegistry::known().with_attributes(text).is_err());
}

#[test]
fn a_feature_without_a_gate_is_off() {
    assert!(!FeatureGates::defaults(&registry()).enabled(Feature::VirtualMachinePool));
}

#[test]
fn every_feature_has_its_gate() {
    assert!(GateRegistry::known().get(Feature::VirtualMachinePool.name()).is_some());
}

#[test]
fn the_last_of_two_gates_with_one_name_is_used() {
    let registry = GateRegistry::new([
        gate("Twin", FeatureStage::Alpha, false, false),
        gate("Twin", FeatureStage::Beta, true, false),
    ]);
    assert_eq!(registry.gates(), [gate("Twin", FeatureStage::Beta, true, false)]);
}

#[test]
fn displayed_gates_parse_to_the_same_value() {
    let gates = FeatureGates::parse(&registry(), "AllAlpha=true,Ripe=false").unwrap();
    let text = gates.to_string();
    assert_eq!(text, "Barred=false,Done=true,Fresh=true,Granted=true,Old=false,Ripe=false,Young=true");
    assert_eq!(FeatureGates::parse(&registry(), &text).unwrap(), gates);
}

#[test]
fn setting_a_ga_or_deprecated_gate_gives_a_warning() {
    let warnings = |text| FeatureGates::parse(&registry(), text).unwrap().warnings();
    assert_eq!(warnings("Fresh=true,Ripe=false"), Vec::<String>::new());
    assert_eq!(
        warnings("Done=false,Old=true"),
        [
            "feature gate `Done` is GA and will go away; do not set it",
            "feature gate `Old` is deprecated and will go away"
        ]
    );
}

#[test]
fn help_lists_each_gate_with_stage_and_default() {
    let help = registry().help_text();
    assert!(help.contains("\n  Fresh (ALPHA since 0.1, default false): Something"), "{help}");
    assert!(help.contains("\n  Granted (ALPHA since 0.1, locked to true): Something"), "{help}");
    assert!(help_text().contains("\n  VirtualMachinePool (ALPHA since 0.1, default false): Pools"));
}
