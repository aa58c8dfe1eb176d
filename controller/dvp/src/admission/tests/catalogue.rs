//! One specimen for each rule: a request that breaks the rule, and the text that the user sees. The
//! documentation shows the same texts.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vmpool_engine::admission::scale;

use super::super::TERMS;
use super::*;

/// A request that breaks one rule.
pub(super) struct RuleExample {
    pub(super) rule: Rule,
    /// A similar request that breaks no rule.
    good: Request,
    bad: Request,
}

enum Request {
    Create(World, Value),
    Update(World, Value, Value),
    By(&'static str, Value, Value),
    Scale(i64, i64, &'static str),
}

impl Request {
    fn verdict(&self) -> AdmissionVerdict {
        match self {
            Self::Create(world, new) => world.create(new),
            Self::Update(world, old, new) => world.update(old, new),
            Self::By(user, old, new) => World::complete().judge(user, Some(old), new),
            Self::Scale(from, to, policy) => {
                let scale = |replicas: &i64| json!({ "kind": "Scale", "spec": { "replicas": replicas } });
                let refusal = match scale::compare_scales(&scale(from), &scale(to)).unwrap() {
                    scale::ScaleChange::Allow => None,
                    scale::ScaleChange::AskPolicy(shrink) => {
                        scale::scale_guard_refusal(&TERMS, "builders", *policy == "Explicit", shrink)
                    }
                };
                let outcome = refusal
                    .map_or(AdmissionDecision::Allowed, |refusal| AdmissionDecision::Refused(refusal.into()));
                AdmissionVerdict { outcome, warnings: Vec::new() }
            }
        }
    }
}

impl RuleExample {
    /// The text that the user sees.
    pub(super) fn text(&self) -> String {
        let verdict = self.bad.verdict();
        match (&verdict.outcome, verdict.warnings.as_slice()) {
            (AdmissionDecision::Refused(refusal), []) => refusal.to_string(),
            (AdmissionDecision::Allowed, [warning]) => warning.to_string(),
            other => panic!("{}: {other:?}", self.rule),
        }
    }
}

fn create(rule: Rule, bad: Value) -> RuleExample {
    let good = Request::Create(World::complete(), pool());
    RuleExample { rule, good, bad: Request::Create(World::complete(), bad) }
}

fn create_in(rule: Rule, world: World, pool: Value) -> RuleExample {
    let good = Request::Create(World::complete(), pool.clone());
    RuleExample { rule, good, bad: Request::Create(world, pool) }
}

fn update(rule: Rule, old: Value, good: Value, bad: Value) -> RuleExample {
    let good = Request::Update(World::complete(), old.clone(), good);
    RuleExample { rule, good, bad: Request::Update(World::complete(), old, bad) }
}

/// All specimens, in the order of the rules.
#[expect(clippy::too_many_lines, reason = "a table with a row for each rule")]
pub(super) fn rule_examples() -> Vec<RuleExample> {
    let explicit = || with(pool(), "/spec/scaleDownPolicy", json!("Explicit"));
    let recorded = || with(pool(), "/metadata/annotations", json!({ RECORD: r#"[{"name":"a","uid":"1"}]"# }));
    let held = with(pool(), "/spec/rollout", json!({ "revision": "0123456789abcdef" }));
    let two = |a: Value, b: Value| machine("/networks", json!([a, b]));
    let from =
        |kind: &str, name: &str| json!({ "type": "ObjectRef", "objectRef": { "kind": kind, "name": name } });
    let twice = {
        let twice = machine("/blockDeviceRefs/1", json!({ "kind": "VirtualDisk", "name": "cache" }));
        with(twice, "/spec/virtualDiskTemplates/0", Value::Null)
    };
    vec![
        RuleExample {
            rule: Rule::TargetsRecord,
            good: Request::By(HANDLER, pool(), recorded()),
            bad: Request::By("alice", pool(), recorded()),
        },
        RuleExample {
            rule: Rule::ExplicitCount,
            good: Request::By(HANDLER, explicit(), with(explicit(), "/spec/replicas", json!(2))),
            bad: Request::By("alice", explicit(), with(explicit(), "/spec/replicas", json!(2))),
        },
        RuleExample {
            rule: Rule::ScaleGuard,
            good: Request::Scale(3, 2, "NewestFirst"),
            bad: Request::Scale(3, 2, "Explicit"),
        },
        create(Rule::Unreadable, machine("/cpu/cores", json!("two"))),
        create(Rule::Schema, machine("/runPolicy", json!("Sometimes"))),
        create(Rule::NameLength, with(pool(), "/metadata/name", json!("b".repeat(58)))),
        create(Rule::NameDots, with(pool(), "/metadata/name", json!("team.builders"))),
        create(Rule::SpecSize, machine("/nodeSelector", json!({ "zone": "z".repeat(131_072) }))),
        create(Rule::DiskNotAttached, machine("/blockDeviceRefs/2", Value::Null)),
        create(
            Rule::DeviceWithoutTemplate,
            machine("/blockDeviceRefs/-", json!({ "kind": "VirtualDisk", "name": "rooot" })),
        ),
        // A create with these devices is refused as a duplicate device first. Here the devices are already
        // stored.
        update(
            Rule::DiskAttachedTwice,
            with(twice.clone(), "/spec/virtualDiskTemplates", json!([])),
            with(with(twice.clone(), "/spec/replicas", json!(2)), "/spec/virtualDiskTemplates", json!([])),
            twice,
        ),
        create(Rule::LegacyGuest, machine("/osType", json!("Legacy"))),
        create(
            Rule::ReclaimWithoutRetain,
            disk(0, "/reclaim", json!({ "onScaleDown": "Delete", "keep": 2 })),
        ),
        create(Rule::KeepWithoutTtl, disk(1, "/reclaim/ttl", Value::Null)),
        create(Rule::BadTtl, disk(1, "/reclaim/ttl", json!("1d"))),
        update(
            Rule::ReclaimChanged,
            pool(),
            disk(1, "/reclaim/keep", json!(3)),
            disk(1, "/reclaim", Value::Null),
        ),
        create(Rule::BadCoreFraction, machine("/cpu/coreFraction", json!("25"))),
        create(Rule::NoMemory, machine("/memory/size", json!("0"))),
        // The class of four cores refuses such a size.
        create(
            Rule::MemoryUnit,
            with(machine("/cpu/cores", json!(8)), &format!("{MACHINE}/memory/size"), json!("512")),
        ),
        create(Rule::Provisioning, machine("/provisioning", json!({ "type": "UserData" }))),
        create(
            Rule::LongUserData,
            machine(
                "/provisioning",
                json!({ "type": "UserData", "userData": format!("#!/bin/sh\n{}", "x".repeat(2048)) }),
            ),
        ),
        create(Rule::DataSource, disk(0, "/spec/dataSource/type", json!("HTTP"))),
        create(Rule::MaxUnavailable, with(pool(), "/spec/rollout", json!({ "maxUnavailable": "0%" }))),
        create(Rule::HistoryLimit, with(pool(), "/spec/revisionHistoryLimit", json!(-1))),
        create(Rule::RevisionName, with(pool(), "/spec/rollout", json!({ "revision": "The_Last" }))),
        create(
            Rule::Devices,
            machine("/blockDeviceRefs/-", json!({ "kind": "ClusterVirtualImage", "name": "toolbox" })),
        ),
        create(
            Rule::PlatformKeys,
            with(pool(), "/spec/virtualMachineTemplate/metadata/labels/kubevirt.io~1size", json!("small")),
        ),
        create(Rule::Cores, machine("/cpu/cores", json!(17))),
        create(
            Rule::Placement,
            machine(
                "/affinity",
                json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "zone", "operator": "In" }] },
            ] } } }),
            ),
        ),
        create(Rule::Sizing, machine("/cpu/cores", json!(6))),
        create_in(
            Rule::ClassUnknown,
            {
                let mut world = World::complete();
                world.facts.class = None;
                world
            },
            pool(),
        ),
        create_in(
            Rule::AutoFraction,
            World::without(|cluster| cluster.in_place_resize = CapabilityState::No),
            machine("/cpu/coreFraction", json!("Auto")),
        ),
        create(Rule::Networks, two(json!({ "type": "Network", "name": "a" }), json!({ "type": "Main" }))),
        create(
            Rule::BootsFromImage,
            machine(
                "/blockDeviceRefs",
                json!([
                    { "kind": "ClusterVirtualImage", "name": "toolbox" },
                    { "kind": "VirtualDisk", "name": "root" },
                    { "kind": "VirtualDisk", "name": "cache" },
                ]),
            ),
        ),
        create_in(Rule::ImageUnknown, World::complete().without_image("toolbox"), pool()),
        create_in(
            Rule::Gpus,
            World::without(|cluster| cluster.gpus = CapabilityState::No),
            machine("/gpus", json!([{ "gpuClassName": "a10" }])),
        ),
        create(
            Rule::UserData,
            machine("/provisioning", json!({ "type": "UserData", "userData": "packages: [git]" })),
        ),
        create(Rule::Identities, machine("/virtualMachineIPAddressName", json!("web-1"))),
        create(
            Rule::ReservedKeys,
            with(
                pool(),
                "/spec/virtualMachineTemplate/metadata/labels/vmpool.virtualization.deckhouse.io~1pool",
                json!("other"),
            ),
        ),
        update(
            Rule::DiskSmaller,
            pool(),
            disk(1, "/spec/persistentVolumeClaim/size", json!("30Gi")),
            disk(1, "/spec/persistentVolumeClaim/size", json!("10Gi")),
        ),
        update(
            Rule::RetainRemoved,
            pool(),
            with(pool(), "/spec/replicas", json!(4)),
            with(machine("/blockDeviceRefs/2", Value::Null), "/spec/virtualDiskTemplates/1", Value::Null),
        ),
        create(Rule::Upload, disk(0, "/spec/dataSource", json!({ "type": "Upload" }))),
        create(Rule::DiskSize, disk(1, "/spec/persistentVolumeClaim/size", json!("0"))),
        create(Rule::DiskBelowSource, disk(0, "/spec/persistentVolumeClaim/size", json!("1Gi"))),
        create_in(
            Rule::DiskFromIso,
            World::complete()
                .image("installer", VirtualImageFacts { ready: true, cdrom: true, unpacked: None }),
            disk(0, "/spec/dataSource", from("ClusterVirtualImage", "installer")),
        ),
        create_in(Rule::SourceUnknown, World::complete().without_image("debian"), pool()),
        create_in(
            Rule::StorageClassUnknown,
            World::complete().storage_class("fast", LookupOutcome::Absent),
            disk(1, "/spec/persistentVolumeClaim/storageClassName", json!("fast")),
        ),
        update(
            Rule::LeavingExplicit,
            with(explicit(), "/status/replicas", json!(5)),
            with(explicit(), "/spec/replicas", json!(4)),
            with(pool(), "/status/replicas", json!(5)),
        ),
        update(
            Rule::EmptiedPool,
            pool(),
            with(pool(), "/spec/replicas", json!(1)),
            with(pool(), "/spec/replicas", Value::Null),
        ),
        create(
            Rule::MaxProtection,
            with(pool(), "/metadata/annotations", json!({ "vmpool.dev/max-protection": "30s" })),
        ),
        create(
            Rule::ProgressDeadline,
            with(pool(), "/metadata/annotations", json!({ "vmpool.dev/progress-deadline-seconds": "0" })),
        ),
        create(
            Rule::MaxProvisioning,
            with(pool(), "/metadata/annotations", json!({ "vmpool.dev/max-provisioning": "0" })),
        ),
        create(
            Rule::Healing,
            with(pool(), "/metadata/annotations", json!({ "vmpool.dev/healing": r#"{"maxUnhealthy": 0}"# })),
        ),
        create(
            Rule::Drain,
            with(pool(), "/metadata/annotations", json!({ "vmpool.dev/drain": r#"{"timeout": "25h"}"# })),
        ),
        create(
            Rule::Standby,
            with(pool(), "/metadata/annotations", json!({ "vmpool.dev/standby": r#"{"replicas": -1}"# })),
        ),
        create(
            Rule::Recycle,
            with(
                pool(),
                "/metadata/annotations",
                json!({ "vmpool.dev/recycle": r#"{"maxLifetime": "1m"}"# }),
            ),
        ),
        create(
            Rule::ImageRefresh,
            with(pool(), "/metadata/annotations", json!({ "vmpool.dev/image-refresh": "Always" })),
        ),
        create(Rule::RolloutAnnotation, with(pool(), "/metadata/annotations", json!({ PAUSED: "yes" }))),
        update(
            Rule::RolloutContradiction,
            pool(),
            with(pool(), "/metadata/annotations", json!({ PAUSED: "true" })),
            with(
                with(pool(), "/metadata/annotations", json!({ PAUSED: "true" })),
                "/spec/rollout",
                json!({ "paused": false }),
            ),
        ),
        RuleExample {
            rule: Rule::PinnedRevision,
            good: Request::Update(World::complete(), pool(), held.clone()),
            bad: Request::Update(
                {
                    let mut world = World::complete();
                    world.facts.revisions = vec![LookupOutcome::Absent, LookupOutcome::Absent];
                    world
                },
                pool(),
                held.clone(),
            ),
        },
        update(
            Rule::RolloutHeld,
            held.clone(),
            with(held.clone(), "/spec/replicas", json!(4)),
            with(held, &format!("{MACHINE}/cpu/cores"), json!(4)),
        ),
        create(
            Rule::MetadataKeys,
            with(pool(), "/spec/virtualMachineTemplate/metadata/labels/role", json!("web server")),
        ),
        update(
            Rule::BecomingExplicit,
            with(pool(), "/status/replicas", json!(5)),
            with(explicit(), "/spec/replicas", json!(5)),
            explicit(),
        ),
    ]
}

#[test]
fn every_rule_has_a_example_in_its_place() {
    let shown: Vec<Rule> = rule_examples().iter().map(|example| example.rule).collect();
    assert_eq!(shown, Rule::ALL);
    let ids: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.id()).collect();
    assert_eq!(ids.len(), Rule::ALL.len(), "two rules share an id");
}

#[test]
fn an_example_breaks_its_rule_and_its_neighbour_none() {
    for example in rule_examples() {
        let (rule, good, bad) = (example.rule, example.good.verdict(), example.bad.verdict());
        assert_eq!(
            good,
            AdmissionVerdict { outcome: AdmissionDecision::Allowed, warnings: Vec::new() },
            "{rule}"
        );
        if rule.severity() == RuleSeverity::Warning {
            assert_eq!(bad.outcome, AdmissionDecision::Allowed, "{rule}");
            assert_eq!(bad.warnings.iter().map(|warning| listed(warning.rule)).collect::<Vec<_>>(), [rule]);
        } else {
            assert_eq!(refused(&bad), Some(rule));
        }
    }
}

/// The text has the field, the value and a permitted alternative, in this order.
#[test]
fn every_message_names_a_field_and_a_way_out() {
    for example in rule_examples() {
        let (rule, text) = (example.rule, example.text());
        let (field, rest) = text.split_once(": ").unwrap();
        assert!(field.starts_with("spec.") || field.starts_with("metadata."), "{rule}: {text}");
        assert!(text.ends_with(&format!("(rule {rule})")), "{text}");
        assert!(!text.contains(['\n', '\r']), "{text}");
        if rule.severity() == RuleSeverity::Warning {
            assert!(text.len() <= 256, "{rule}: {} bytes", text.len());
        } else {
            assert!(rest.starts_with("Invalid value: ") || rest.starts_with("Forbidden: "), "{text}");
            assert!(rest.contains("; "), "{rule} shows no way out: {text}");
            assert!(text.len() < 600, "{rule}: {} bytes", text.len());
        }
    }
}

/// Pools that break one refusing rule by their content and not by a change.
pub(super) fn broken() -> Vec<(Rule, Value)> {
    let states =
        rule_examples().into_iter().filter(|example| example.rule.severity() == RuleSeverity::Invalid);
    let states: Vec<_> = states
        .filter_map(|RuleExample { rule, bad, .. }| match bad {
            Request::Create(_, pool) => Some((rule, pool)),
            Request::Update(_, _, pool) if rule == Rule::DiskAttachedTwice => Some((rule, pool)),
            Request::Update(..) | Request::By(..) | Request::Scale(..) => None,
        })
        // These rules depend on the cluster and allow the pool when all facts are known.
        .filter(|(rule, _)| !matches!(rule, Rule::AutoFraction | Rule::Gpus))
        .collect();
    assert!(states.len() > 20, "{} are left", states.len());
    states
}
