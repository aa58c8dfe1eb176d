//! Verdicts of KubeVirt's own webhook: for each rejection its field, the reason of the cause and a part of
//! the message. Clients match on these.

use super::*;

const T: &str = "spec.virtualMachineTemplate.spec.template";
const M: &str = "spec.virtualMachineTemplate.spec";

/// The pool, and what clients read of the cause: field, reason, and a part of the message.
type Pair = (&'static str, Value, String, &'static str, &'static str);

fn selector(selector: Value) -> Value {
    with(pool(), "/spec/selector", selector)
}

fn budget(value: Value) -> Value {
    with(pool(), "/spec/maxUnavailable", value)
}

/// Clients of Go send an empty text where they set nothing.
fn tolerations(effect: &str) -> Value {
    json!([{ "key": "dedicated", "operator": "Exists", "effect": effect }])
}

fn volume_spec(spec: Value) -> Value {
    machine("/dataVolumeTemplates/0/spec", spec)
}

#[expect(clippy::too_many_lines, reason = "one entry for each line of the specification")]
fn corpus() -> Vec<Pair> {
    let (invalid, required) = ("FieldValueInvalid", "FieldValueRequired");
    let blank = || json!({ "blank": {} });
    let dv = || format!("{M}.dataVolumeTemplate[0]");
    let selector_field = || "spec.selector".to_owned();
    let budget_field = || "spec.maxUnavailable".to_owned();
    vec![
        (
            "no template",
            with(pool(), "/spec/virtualMachineTemplate", Value::Null),
            "spec.template".to_owned(),
            required,
            "missing virtual machine template",
        ),
        (
            "no template of the instance",
            machine("/template", Value::Null),
            T.to_owned(),
            required,
            "missing virtual machine template",
        ),
        (
            "a reserved label",
            machine("/template/metadata/labels/kubevirt.io~1nodeName", json!("a")),
            format!("{T}.metadata.labels"),
            "FieldValueNotSupported",
            "reserved kubevirt.io/ labels",
        ),
        (
            "a disk without a volume",
            machine("/template/spec/domain/devices/disks/0/name", json!("lost")),
            format!("{T}.spec.domain.devices.disks[0].name"),
            invalid,
            "disks[0].Name 'lost' not found.",
        ),
        (
            "two volumes of one name",
            machine("/template/spec/volumes/-", json!({ "name": "scratch", "emptyDisk": {} })),
            format!("{T}.spec.volumes[1].name"),
            invalid,
            "must not have the same Name",
        ),
        (
            "a DataVolume template without a name",
            machine("/dataVolumeTemplates/0/metadata", json!({})),
            dv(),
            required,
            "name",
        ),
        (
            "a DataVolume template without storage",
            volume_spec(json!({ "source": blank() })),
            dv(),
            required,
            "Missing Data volume PVC or Storage",
        ),
        (
            "a DataVolume template with both kinds of storage",
            volume_spec(json!({ "source": blank(), "pvc": {}, "storage": {} })),
            dv(),
            invalid,
            "both target storage and target pvc defined",
        ),
        (
            "a DataVolume template without a source",
            volume_spec(json!({ "storage": {} })),
            dv(),
            required,
            "should have either Source, SourceRef, or be externally populated",
        ),
        (
            "a DataVolume template with two kinds of sources",
            volume_spec(
                json!({ "source": blank(), "pvc": { "dataSourceRef": { "kind": "A", "name": "a" } } }),
            ),
            dv(),
            invalid,
            "External population is incompatible with Source and SourceRef",
        ),
        (
            "a DataVolume template without a volume",
            machine("/template/spec/volumes/0/dataVolume/name", json!("other")),
            dv(),
            invalid,
            "must be referenced in the VMI template's 'volumes' list",
        ),
        (
            "running and runStrategy",
            machine("/running", json!(true)),
            format!("{M}.running"),
            invalid,
            "mutually exclusive",
        ),
        (
            "neither running nor runStrategy",
            machine("/runStrategy", Value::Null),
            format!("{M}.running"),
            invalid,
            "RunStrategy must be specified",
        ),
        (
            "an unknown run strategy",
            machine("/runStrategy", json!("Sometimes")),
            format!("{M}.runStrategy"),
            invalid,
            "Invalid RunStrategy",
        ),
        (
            "an unknown operator",
            selector(json!({ "matchExpressions": [{ "key": "farm", "operator": "Like", "values": ["a"] }] })),
            selector_field(),
            invalid,
            "is not a valid label selector operator",
        ),
        (
            "no values",
            selector(json!({ "matchExpressions": [{ "key": "farm", "operator": "In" }] })),
            selector_field(),
            invalid,
            "for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "values without need",
            selector(
                json!({ "matchExpressions": [{ "key": "farm", "operator": "Exists", "values": ["a"] }] }),
            ),
            selector_field(),
            invalid,
            "values set must be empty for exists and does not exist",
        ),
        (
            "an invalid value of a label",
            selector(json!({ "matchLabels": { "farm": "a b" } })),
            selector_field(),
            invalid,
            "cannot have the value",
        ),
        (
            "other labels",
            selector(json!({ "matchLabels": { "farm": "other" } })),
            selector_field(),
            invalid,
            "selector does not match labels",
        ),
        ("no selector", selector(Value::Null), selector_field(), invalid, "selector does not match labels"),
        ("no percent sign", budget(json!("25")), budget_field(), invalid, "must end with %"),
        ("a word", budget(json!("x%")), budget_field(), invalid, "percentage value"),
        ("a word, too", budget(json!("x%")), budget_field(), invalid, "is invalid"),
        ("more than all", budget(json!("101%")), budget_field(), invalid, "must be between 1 and 100"),
        ("no percent", budget(json!("0%")), budget_field(), invalid, "must be between 1 and 100"),
        ("no machine", budget(json!(0)), budget_field(), invalid, "must be greater than 0"),
        ("fewer than none", budget(json!(-1)), budget_field(), invalid, "must be greater than 0"),
        (
            "two update strategies",
            with(pool(), "/spec/updateStrategy", json!({ "unmanaged": {}, "proactive": {} })),
            "spec.updateStrategy".to_owned(),
            invalid,
            "only one strategy can be configured",
        ),
        (
            "three scale-in strategies",
            with(
                pool(),
                "/spec/scaleInStrategy",
                json!({ "unmanaged": {}, "proactive": {}, "opportunistic": {} }),
            ),
            "spec.scaleInStrategy".to_owned(),
            invalid,
            "only one strategy can be configured",
        ),
    ]
}

#[test]
fn a_rejection_has_the_field_reason_and_text_of_kubevirt() {
    for (name, pool, field, reason, text) in corpus() {
        for version in ["v1beta1", "v1alpha1"] {
            let pool = with(pool.clone(), "/apiVersion", json!(format!("pool.kubevirt.io/{version}")));
            let verdict = create(&pool);
            let AdmissionDecision::Refused(refusals) = &verdict.outcome else {
                panic!("{name}: {verdict:?}")
            };
            let refusal = refusals.first();
            assert_eq!((&refusal.field, refusal.reason()), (&field, reason), "{name}");
            assert!(refusal.cause().contains(text), "{name}: {}", refusal.cause());
            for message in [refusal.cause(), refusals.to_string()] {
                let (begin, _) = message.split_once("; ").unwrap();
                assert!(begin.contains(text), "{name}: {message}");
            }
            // A message has a correction and the identifier of the rule.
            assert!(refusal.cause().contains("; "), "{name}: {}", refusal.cause());
            assert!(refusal.cause().ends_with(&format!("(rule {})", refusal.rule)), "{name}");
        }
    }
}

#[test]
fn the_message_begins_with_the_text_of_kubevirt() {
    let disk = |index: usize, name: &str| {
        with(pool(), &format!("{MACHINE}/template/spec/domain/devices/disks/{index}/name"), json!(name))
    };
    let AdmissionDecision::Refused(refusals) = create(&disk(0, "testdisk")).outcome else {
        panic!("allowed")
    };
    let text = format!("{T}.spec.domain.devices.disks[0].Name 'testdisk' not found.");
    for message in [refusals.first().cause(), refusals.to_string()] {
        assert!(message.starts_with(&text), "{message}");
        assert!(message.contains("not found. Add a volume of this name"), "{message}");
    }
    let path = format!("{T}.spec.domain.devices.disks[0].name: Invalid value: \"testdisk\" (rule K7)");
    assert!(refusals.to_string().contains(&path), "{refusals}");
}

#[test]
fn what_kubevirt_accepts_is_accepted() {
    let allowed = [
        ("no effect of a toleration", machine("/template/spec/tolerations", tolerations(""))),
        ("an empty selector", selector(json!({}))),
        (
            "a lone running",
            with(machine("/runStrategy", Value::Null), &format!("{MACHINE}/running"), json!(true)),
        ),
        ("a percentage of all", budget(json!("100%"))),
        ("one percent", budget(json!("1%"))),
        ("a number above replicas", budget(json!(90))),
        (
            "a claim of a template",
            machine(
                "/template/spec/volumes/0",
                json!({ "name": "scratch", "persistentVolumeClaim": { "claimName": "scratch" } }),
            ),
        ),
        ("a populated volume", volume_spec(json!({ "pvc": { "dataSource": { "kind": "A", "name": "a" } } }))),
        (
            "a source reference",
            volume_spec(json!({ "sourceRef": { "kind": "DataSource", "name": "a" }, "storage": {} })),
        ),
        ("healing by default", with(pool(), "/spec/autohealing", json!({}))),
        ("an empty strategy", with(pool(), "/spec/updateStrategy", json!({}))),
        ("the label of the pool", machine("/template/metadata/labels/kubevirt.io~1vmpool", json!("render"))),
        ("no count", with(pool(), "/spec/replicas", Value::Null)),
    ];
    for (name, pool) in allowed {
        let verdict = create(&pool);
        assert_eq!(verdict.outcome, AdmissionDecision::Allowed, "{name}");
        assert_eq!(warned(&verdict), [], "{name}");
    }
}

#[test]
fn kubevirt_itself_uses_its_reserved_labels() {
    let labeled = machine("/template/metadata/labels/kubevirt.io~1nodeName", json!("a"));
    let kubevirt = "system:serviceaccount:kubevirt:kubevirt-controller";
    let others = LookupOutcome::There(json!({ "items": [] }));
    assert_allowed(&among(kubevirt, None, &labeled, Some(&others)));
    let namesake = "system:serviceaccount:studio:kubevirt-controller";
    assert_eq!(refused(&among(namesake, None, &labeled, Some(&others))), [Rule::ReservedLabels]);
}

#[test]
fn what_kubevirt_does_not_validate_is_refused_where_it_only_harms() {
    let policy = |selectors: Value| json!({ "proactive": { "selectionPolicy": { "selectors": selectors } } });
    let bad_labels =
        policy(json!({ "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } }));
    let bad_nodes = policy(
        json!({ "nodeSelectorRequirementMatcher": [{ "key": "a", "operator": "Gt", "values": ["x"] }] }),
    );
    for strategy in ["scaleInStrategy", "updateStrategy"] {
        let path = format!("/spec/{strategy}");
        assert_eq!(refused(&create(&with(pool(), &path, bad_labels.clone()))), [Rule::PolicySelectors]);
        assert_eq!(refused(&create(&with(pool(), &path, bad_nodes.clone()))), [Rule::PolicySelectors]);
    }
    let healing =
        |time: &str| with(pool(), "/spec/autohealing", json!({ "minFailingToStartDuration": time }));
    assert_eq!(refused(&create(&healing("-1s"))), [Rule::HealingTime]);
    assert_allowed(&create(&healing("90s")));
    assert_allowed(&create(&healing("0s")));
    let named = |length: usize| with(pool(), "/metadata/name", json!("a".repeat(length)));
    assert_eq!(refused(&create(&named(62))), [Rule::NameLength]);
    assert_eq!(warned(&create(&named(61))), [Rule::LongName]);
    assert_eq!(warned(&create(&named(53))), [Rule::LongName]);
    assert_allowed(&create(&named(52)));
    let long = machine("/template/metadata/annotations", json!({ "a": "x".repeat(200_000) }));
    assert_eq!(refused(&create(&long)), [Rule::SpecSize]);
}

#[test]
fn a_part_of_another_type_is_a_bad_request() {
    for (place, value, part) in [
        (
            "/spec/autohealing",
            json!({ "minFailingToStartDuration": "5 minutes" }),
            "minFailingToStartDuration",
        ),
        ("/spec/paused", json!("yes"), "spec.paused"),
        ("/spec/selector", json!([]), "spec.selector"),
        ("/spec/nameGeneration", json!({ "appendIndexToSecretRefs": 1 }), "spec.nameGeneration"),
        ("/spec/virtualMachineTemplate/spec", json!("x"), "spec.virtualMachineTemplate"),
        ("/spec", json!([1]), "spec"),
    ] {
        let verdict = create(&with(pool(), place, value));
        let AdmissionDecision::Malformed(reason) = &verdict.outcome else { panic!("{place}: {verdict:?}") };
        assert!(reason.contains(part), "{place}: {reason}");
    }
}

#[test]
fn a_template_has_no_keys_of_vmpool() {
    for kind in ["labels", "annotations"] {
        let keys = json!({ "farm": "render", "vmpool.dev/protected-until": "2030-01-01T00:00:00Z" });
        let pool = with(pool(), &format!("/spec/virtualMachineTemplate/metadata/{kind}"), keys);
        assert_eq!(refused(&create(&pool)), [Rule::ReservedKeys], "{kind}");
    }
    let refresh = json!({ "vmpool.dev/refresh-instancetype": "1" });
    let pool = with(pool(), "/spec/virtualMachineTemplate/metadata/annotations", refresh);
    assert_eq!(refused(&create(&pool)), []);
}

#[test]
fn an_instance_has_metadata_that_the_api_server_accepts() {
    let with_metadata = |kind: &str, map: Value| machine(&format!("/template/metadata/{kind}"), map);
    for (kind, map, expected) in [
        ("labels", json!({ "farm": "render", "tier": "" }), vec![]),
        ("labels", json!({ "farm": "render", "tier": "-1" }), vec![Rule::InstanceMetadata]),
        ("labels", json!({ "farm": "render", "tier": "two words" }), vec![Rule::InstanceMetadata]),
        ("labels", json!({ "farm": "render", "a b": "c" }), vec![Rule::InstanceMetadata]),
        ("annotations", json!({ "Team": "two words" }), vec![]),
        ("annotations", json!({ "two words": "" }), vec![Rule::InstanceMetadata]),
    ] {
        let pool = with_metadata(kind, map);
        assert_eq!(refused(&create(&pool)), expected, "{pool}");
        // A stored template is not validated again.
        assert_eq!(refused(&judge(Some(&pool), &with(pool.clone(), "/spec/replicas", json!(7)))), []);
    }
}

#[test]
fn the_number_of_kept_revisions_is_checked_when_it_changes() {
    let annotated = |text: &str| {
        with(pool(), "/metadata/annotations", json!({ "vmpool.dev/revision-history-limit": text }))
    };
    let field = |limit: Value| with(pool(), "/spec/revisionHistoryLimit", limit);
    for bad in [annotated("-1"), annotated("many"), annotated(""), field(json!(-1))] {
        assert_eq!(refused(&create(&bad)), [Rule::HistoryLimit], "{bad}");
        assert_eq!(refused(&judge(Some(&bad), &with(bad.clone(), "/spec/replicas", json!(7)))), []);
    }
    assert_eq!(refused(&judge(Some(&annotated("3")), &annotated("x"))), [Rule::HistoryLimit]);
    for good in [annotated("0"), field(json!(0)), field(json!(25))] {
        assert_eq!(refused(&create(&good)), []);
        assert_eq!(warned(&create(&good)), []);
    }
}

#[test]
fn the_annotation_for_name_generation_has_known_fields() {
    let annotated =
        |text: &str| with(pool(), "/metadata/annotations", json!({ "vmpool.dev/name-generation": text }));
    let bad = annotated("setHostnameToVMName,hostname");
    assert_eq!(refused(&create(&bad)), [Rule::AnnotatedNames]);
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    assert_eq!(refused(&create(&annotated("setHostnameToVMName, appendIndexToSysprepRefs"))), []);
}

#[test]
fn the_limit_on_provisioning_is_checked_when_it_changes() {
    let annotated =
        |text: &str| with(pool(), "/metadata/annotations", json!({ "vmpool.dev/max-provisioning": text }));
    assert_eq!(refused(&create(&annotated("0"))), [Rule::MaxProvisioning]);
    assert_eq!(refused(&create(&annotated("5"))), []);
    let (good, bad) = (annotated("10%"), annotated("few"));
    assert_eq!(refused(&judge(Some(&good), &bad)), [Rule::MaxProvisioning], "without a change of the spec");
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    let field = |value: Value| with(pool(), "/spec/maxProvisioning", value);
    for bad in [json!(0), json!("3"), json!("101%"), json!(true)] {
        assert_eq!(refused(&create(&field(bad.clone()))), [Rule::MaxProvisioning], "{bad}");
    }
    assert_eq!(refused(&create(&field(json!(3)))), []);
}

#[test]
fn the_progress_deadline_is_checked_when_it_changes() {
    let annotated = |text: &str| {
        with(pool(), "/metadata/annotations", json!({ "vmpool.dev/progress-deadline-seconds": text }))
    };
    let (good, bad) = (annotated("1800"), annotated("30m"));
    assert_eq!(refused(&create(&good)), []);
    assert_eq!(refused(&judge(Some(&good), &bad)), [Rule::ProgressDeadline], "without a change of the spec");
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    let field = |value: Value| with(pool(), "/spec/progressDeadlineSeconds", value);
    for bad in [json!(0), json!(-1), json!("600"), json!(2_147_483_648_u64), json!(1.5)] {
        assert_eq!(refused(&create(&field(bad.clone()))), [Rule::ProgressDeadline], "{bad}");
    }
    assert_eq!(refused(&create(&field(json!(1)))), []);
}

#[test]
fn image_refresh_is_checked_when_it_changes() {
    let annotated =
        |text: &str| with(pool(), "/metadata/annotations", json!({ "vmpool.dev/image-refresh": text }));
    let (good, bad) = (annotated("Report"), annotated("Always"));
    assert_eq!(refused(&create(&good)), []);
    assert_eq!(refused(&judge(Some(&good), &bad)), [Rule::ImageRefresh], "without a change of the spec");
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    let field = |value: Value| with(pool(), "/spec/imageRefresh", value);
    for bad in [json!("always"), json!(false), json!("")] {
        assert_eq!(refused(&create(&field(bad.clone()))), [Rule::ImageRefresh], "{bad}");
    }
    for good in ["Off", "Report", "Recreate"] {
        assert_eq!(refused(&create(&field(json!(good)))), [], "{good}");
    }
}

#[test]
fn machines_with_preserved_storage_are_not_recreated_for_their_images() {
    let preserved = |strategy: &str, preservation: &str| {
        let strategy = json!({ strategy: { "statePreservation": preservation } });
        let templates = json!([{ "metadata": { "name": "root" }, "spec": { "storage": {},
            "sourceRef": { "kind": "DataSource", "name": "debian" } } }]);
        let pool = with(pool(), "/spec/virtualMachineTemplate/spec/dataVolumeTemplates", templates);
        with(pool, "/spec/scaleInStrategy", strategy)
    };
    let recreates = |pool: Value| with(pool, "/spec/imageRefresh", json!("Recreate"));
    let is_refused = |verdict: &AdmissionVerdict| refused(verdict).contains(&Rule::ImageRefresh);
    assert!(is_refused(&create(&recreates(preserved("proactive", "Offline")))));
    assert!(!is_refused(&create(&recreates(preserved("proactive", "Disabled")))));
    let kept = recreates(preserved("opportunistic", "Offline"));
    assert!(is_refused(&judge(Some(&preserved("opportunistic", "Offline")), &kept)));
    let later = with(kept.clone(), "/spec/replicas", json!(7));
    assert!(!is_refused(&judge(Some(&kept), &later)), "an existing pool can change");
}

#[test]
fn the_longest_protection_is_checked_when_it_changes() {
    let limited =
        |text: &str| with(pool(), "/metadata/annotations", json!({ "vmpool.dev/max-protection": text }));
    assert_eq!(refused(&create(&limited("721h"))), [Rule::MaxProtection]);
    assert_eq!(refused(&create(&limited("24h"))), []);
    let (good, bad) = (limited("24h"), limited("soon"));
    assert_eq!(refused(&judge(Some(&good), &bad)), [Rule::MaxProtection], "without a change of the spec");
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    let field = |text: Value| with(pool(), "/spec/maxProtection", text);
    for bad in [json!("721h"), json!("soon"), json!(3)] {
        assert_eq!(refused(&create(&field(bad.clone()))), [Rule::MaxProtection], "{bad}");
    }
    assert_eq!(refused(&create(&field(json!("1h30m")))), []);
}

#[test]
fn standby_machines_are_checked_when_they_change() {
    let annotated = |text: &str| with(pool(), "/metadata/annotations", json!({ "vmpool.dev/standby": text }));
    let (good, bad) = (annotated(r#"{"replicas": 1}"#), annotated("1"));
    assert_eq!(refused(&create(&good)), []);
    assert_eq!(refused(&judge(Some(&good), &bad)), [Rule::Standby], "without a change of the spec");
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    let field = |value: Value| with(pool(), "/spec/standby", value);
    for bad in [json!({ "replicas": -1 }), json!(1), json!({ "replicas": 1, "warmUp": "Later" })] {
        assert_eq!(refused(&create(&field(bad.clone()))), [Rule::Standby], "{bad}");
    }
    let preserving = |pool: Value| {
        with(pool, "/spec/scaleInStrategy", json!({ "proactive": { "statePreservation": "Offline" } }))
    };
    assert_eq!(refused(&create(&preserving(field(json!({ "replicas": 0 }))))), []);
    assert_eq!(refused(&create(&preserving(field(json!({ "replicas": 1 }))))), [Rule::Standby]);
}

#[test]
fn the_setting_of_healing_is_checked_when_it_changes() {
    let annotated = |text: &str| with(pool(), "/metadata/annotations", json!({ "vmpool.dev/healing": text }));
    let (good, bad) = (annotated(r#"{"notReadyFor": "1m"}"#), annotated("on"));
    assert_eq!(refused(&create(&good)), []);
    assert_eq!(refused(&judge(Some(&good), &bad)), [Rule::Healing], "without a change of the spec");
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    let field = |value: Value| with(pool(), "/spec/healing", value);
    for bad in [json!({ "notReadyFor": "25h" }), json!(true), json!({ "maxUnhealthy": 0 })] {
        assert_eq!(refused(&create(&field(bad.clone()))), [Rule::Healing], "{bad}");
    }
    assert_eq!(refused(&create(&field(json!({})))), []);
}

#[test]
fn the_timeout_of_drains_is_checked_when_it_changes() {
    let annotated = |text: &str| with(pool(), "/metadata/annotations", json!({ "vmpool.dev/drain": text }));
    let (good, bad) = (annotated(r#"{"timeout": "1m"}"#), annotated("1m"));
    assert_eq!(refused(&create(&good)), []);
    assert_eq!(refused(&judge(Some(&good), &bad)), [Rule::Drain], "without a change of the spec");
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    let field = |value: Value| with(pool(), "/spec/drain", value);
    for bad in [json!({ "timeout": "25h" }), json!("1m"), json!({ "timeout": 3 })] {
        assert_eq!(refused(&create(&field(bad.clone()))), [Rule::Drain], "{bad}");
    }
    assert_eq!(refused(&create(&field(json!({ "timeout": "0s" })))), []);
}

#[test]
fn the_replacement_of_machines_is_checked_when_it_changes() {
    let annotated = |text: &str| with(pool(), "/metadata/annotations", json!({ "vmpool.dev/recycle": text }));
    let (good, bad) = (annotated(r#"{"maxLifetime": "168h"}"#), annotated("168h"));
    assert_eq!(refused(&create(&good)), []);
    assert_eq!(refused(&judge(Some(&good), &bad)), [Rule::Recycle], "without a change of the spec");
    assert_eq!(refused(&judge(Some(&bad), &bad)), []);
    let field = |value: Value| with(pool(), "/spec/recycle", value);
    for bad in [json!({ "maxLifetime": "1m" }), json!("168h"), json!({ "maxClaims": 0 })] {
        assert_eq!(refused(&create(&field(bad.clone()))), [Rule::Recycle], "{bad}");
    }
    assert_eq!(refused(&create(&field(json!({ "maxClaims": 1, "jitter": 0 })))), []);
}
