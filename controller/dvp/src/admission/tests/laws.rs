//! Properties of any pool.

use proptest::prelude::*;
use serde_json::{Value, json};
use vmpool_platform::syntax;

use super::super::machine::socket_count;
use super::super::sizing::parse_core_fraction;
use super::catalogue::broken;
use super::*;

proptest! {
    /// The sockets have the same size; otherwise the platform could not create the machine.
    #[test]
    fn accepted_cores_fill_their_sockets(cores in -10..300) {
        let mut world = World::complete();
        world.facts.class = None;
        let verdict = world.create(&machine("/cpu/cores", json!(cores)));
        let fits = (1..=248).contains(&cores) && cores % socket_count(cores) == 0;
        prop_assert_eq!(refused(&verdict), (!fits).then_some(Rule::Cores));
        if let AdmissionDecision::Refused(refusal) = verdict.outcome && (1..=248).contains(&cores) {
            // The alternatives in a refusal are permitted values.
            let numbers = refusal.first().detail.rsplit("use ").next().unwrap().split(" or ");
            for number in numbers.map(|number| number.parse::<i32>().unwrap()) {
                prop_assert_eq!(number % socket_count(number), 0);
                prop_assert!((number - cores).abs() < socket_count(248), "{} for {}", number, cores);
            }
        }
    }

    #[test]
    fn amounts_above_zero_are_accepted_however_they_are_written(
        number in 0_u32..5000,
        suffix in prop::sample::select(vec!["", "k", "M", "G", "Ki", "Mi", "Gi", "m", "e3"]),
        plain in any::<bool>(),
    ) {
        let size = if plain { json!(number) } else { json!(format!("{number}{suffix}")) };
        let pool = disk(1, "/spec/persistentVolumeClaim/size", size.clone());
        let expected = (number == 0).then_some(Rule::DiskSize);
        prop_assert_eq!(refused(&World::complete().create(&pool)), expected, "{}", size);
    }

    #[test]
    fn only_smaller_disks_warn(before in 1_u64..100, after in 1_u64..100) {
        let sized = |gib: u64| disk(1, "/spec/persistentVolumeClaim/size", json!(format!("{gib}Gi")));
        let verdict = World::complete().update(&sized(before), &sized(after));
        prop_assert_eq!(verdict.outcome, AdmissionDecision::Allowed);
        prop_assert_eq!(verdict.warnings.len(), usize::from(after < before));
    }

    #[test]
    fn percentages_are_written_in_one_way_only(text in "[0-9+-]{0,4}%?") {
        let canonical = parse_core_fraction(&text).map(|percent| format!("{percent}%"));
        prop_assert!(canonical.is_none_or(|canonical| canonical == text));
        prop_assert_eq!(parse_core_fraction(&text).is_some(), (1..=100).any(|percent| text == format!("{percent}%")));
    }

    #[test]
    fn names_that_are_taken_apart_fit_together(prefix in "[a-z0-9]{1,9}", name in "[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?") {
        prop_assert!(syntax::is_value(&name) && syntax::is_key(&name));
        let key = format!("{prefix}.example/{name}");
        prop_assert!(syntax::is_key(&key), "{}", key);
        for bad in [format!("-{name}"), format!("{name}."), format!("{name} "), "x".repeat(64)] {
            prop_assert!(!syntax::is_value(&bad) && !syntax::is_key(&bad), "{}", bad);
        }
    }

    /// An update of `replicas` is allowed even if the template is invalid.
    #[test]
    fn replicas_alone_never_fail_because_of_the_rest(
        choice in any::<prop::sample::Index>(),
        from in 0_i32..50,
        to in 0_i32..50,
        policy in prop::sample::select(vec!["NewestFirst", "OldestFirst", "Explicit"]),
    ) {
        let all = broken();
        let (rule, pool) = &all[choice.index(all.len())];
        let old = with(with(pool.clone(), "/spec/replicas", json!(from)), "/spec/scaleDownPolicy", json!(policy));
        let new = with(old.clone(), "/spec/replicas", json!(to));
        let verdict = World::complete().update(&old, &new);
        let expected = (policy == "Explicit" && to < from).then_some(Rule::ExplicitCount);
        prop_assert_eq!(refused(&verdict), expected, "{}", rule);
    }

    /// Any request gets an answer, and the same request always gets the same answer.
    #[test]
    fn anything_is_answered_and_twice_alike(
        place in any::<prop::sample::Index>(),
        value in value(),
        updated in any::<bool>(),
    ) {
        let mut places = Vec::new();
        pointers(&pool(), String::new(), &mut places);
        let new = with(pool(), &places[place.index(places.len())], value);
        let (world, old) = (World::complete(), pool());
        let old = updated.then_some(&old);
        let verdict = world.judge("alice", old, &new);
        prop_assert_eq!(&verdict, &world.judge("alice", old, &new));
        if let AdmissionDecision::Refused(refusal) = &verdict.outcome {
            prop_assert!(refusal.first().rule.severity() != RuleSeverity::Warning);
            prop_assert!(refusal.to_string().len() < 1500, "{}", refusal);
        }
        for warning in verdict.warnings {
            prop_assert!(warning.to_string().len() <= 256);
        }
    }
}

/// Any JSON value of limited depth.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,300}".prop_map(Value::from),
        "[a-z0-9.%-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z/.]{0,12}", inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

/// The JSON pointers of all parts of a value.
fn pointers(value: &Value, path: String, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                pointers(value, format!("{path}/{}", key.replace('/', "~1")), all);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                pointers(value, format!("{path}/{index}"), all);
            }
        }
        _ => {}
    }
    if !path.is_empty() {
        all.push(path);
    }
}
