use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

const SCHEMA: Schema = Schema {
    defaults: &[("/mode", r#""slow""#), ("/nest/depth", "1"), ("/variant/ref/kind", r#""Secret""#)],
    keyed: &[("/nics", &["type", "name"])],
    unions: &["/variant"],
};

fn applied(live: &Value, from: Option<&Value>, to: &Value) -> Value {
    let mut result = live.clone();
    if let Some(patch) = SCHEMA.patch(live, from, to) {
        json_patch::merge(&mut result, &patch);
    }
    result
}

#[rstest]
#[case::a_new_field_is_set(json!({}), json!({}), json!({"a": 1}), json!({"a": 1}))]
#[case::a_changed_one_is_changed(json!({"a": 1}), json!({"a": 1}), json!({"a": 2}), json!({"a": 2}))]
#[case::a_dropped_one_goes(json!({"a": 1, "b": 2}), json!({"a": 1}), json!({}), json!({"a": null}))]
#[case::a_field_changed_by_hand_is_overwritten(json!({"a": 7}), json!({"a": 1}), json!({"a": 1}), json!({"a": 1}))]
#[case::a_dropped_one_is_removed_with_any_value(json!({"a": 7}), json!({"a": 1}), json!({}), json!({"a": null}))]
#[case::only_what_was_given_goes(
    json!({"o": {"a": 1, "theirs": 2}}), json!({"o": {"a": 1}}), json!({}), json!({"o": {"a": null}}))]
#[case::an_object_without_anything_left_goes(
    json!({"o": {"p": {"a": 1}}}), json!({"o": {"p": {"a": 1}}}), json!({}), json!({"o": null}))]
#[case::null_is_nothing(json!({"a": 1}), json!({"a": 1}), json!({"a": null}), json!({"a": null}))]
#[case::null_inside_a_new_object_is_not_written(
    json!({}), json!({}), json!({"l": [{"a": null, "b": 1}]}), json!({"l": [{"b": 1}]}))]
#[case::a_value_of_another_type_is_replaced(json!({"a": [1]}), json!({}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}}))]
#[case::a_list_is_one_value(json!({"l": [1, 2]}), json!({"l": [1, 2]}), json!({"l": [2]}), json!({"l": [2]}))]
#[case::so_it_goes_as_one(json!({"l": [1, 2]}), json!({"l": [1]}), json!({}), json!({"l": null}))]
#[case::a_variant_leaves_nothing_of_another(
    json!({"variant": {"type": "Ref", "ref": {"kind": "Secret", "name": "n"}}}),
    json!({}),
    json!({"variant": {"type": "Text", "text": "t"}}),
    json!({"variant": {"type": "Text", "text": "t", "ref": null}}))]
#[case::an_item_keeps_what_the_server_filled_in(
    json!({"nics": [{"type": "Net", "name": "a", "id": 2}]}),
    json!({"nics": [{"type": "Net", "name": "a"}]}),
    json!({"nics": [{"type": "Main"}, {"type": "Net", "name": "a"}]}),
    json!({"nics": [{"type": "Main"}, {"type": "Net", "name": "a", "id": 2}]}))]
#[case::an_item_of_others_stays_behind(
    json!({"nics": [{"type": "Net", "name": "theirs"}, {"type": "Net", "name": "a"}]}),
    json!({"nics": [{"type": "Net", "name": "a"}]}),
    json!({"nics": [{"type": "Net", "name": "b"}]}),
    json!({"nics": [{"type": "Net", "name": "b"}, {"type": "Net", "name": "theirs"}]}))]
#[case::a_keyed_list_goes_as_far_as_it_was_given(
    json!({"nics": [{"type": "Net", "name": "a"}, {"type": "Net", "name": "theirs"}]}),
    json!({"nics": [{"type": "Net", "name": "a"}]}),
    json!({}),
    json!({"nics": [{"type": "Net", "name": "theirs"}]}))]
#[case::a_field_of_an_item_goes_when_the_template_drops_it(
    json!({"nics": [{"type": "Net", "name": "a", "id": 2, "mac": "m"}]}),
    json!({"nics": [{"type": "Net", "name": "a", "id": 2}]}),
    json!({"nics": [{"type": "Net", "name": "a"}]}),
    json!({"nics": [{"type": "Net", "name": "a", "mac": "m"}]}))]
fn writes(#[case] live: Value, #[case] from: Value, #[case] to: Value, #[case] patch: Value) {
    assert_eq!(SCHEMA.patch(&live, Some(&from), &to), Some(patch));
}

#[rstest]
#[case::what_is_there_already(json!({"a": 1, "theirs": 2}), json!({"a": 1}), json!({"a": 1}))]
#[case::what_the_server_filled_into_a_list(
    json!({"l": [{"a": 1, "filled": true}]}), json!({"l": [{"a": 1}]}), json!({"l": [{"a": 1}]}))]
#[case::a_default_that_is_spelled_out(json!({}), json!({}), json!({"mode": "slow", "nest": {"depth": 1}}))]
#[case::a_default_that_would_come_back(json!({"mode": "slow"}), json!({"mode": "fast"}), json!({}))]
#[case::what_is_gone_already(json!({}), json!({"a": 1, "o": {"b": 1}, "l": [1]}), json!({}))]
#[case::a_number_that_the_server_gave(
    json!({"nics": [{"type": "Main", "id": 1}]}), json!({"nics": [{"type": "Main"}]}), json!({"nics": [{"type": "Main"}]}))]
fn leaves_alone(#[case] live: Value, #[case] from: Value, #[case] to: Value) {
    assert_eq!(SCHEMA.patch(&live, Some(&from), &to), None);
}

#[test]
fn what_an_item_had_goes_with_the_template_though_the_list_is_as_long() {
    let live = json!({"l": [{"a": 1, "b": 2}]});
    let patch = SCHEMA.patch(&live, Some(&live), &json!({"l": [{"a": 1}]}));
    assert_eq!(patch, Some(json!({"l": [{"a": 1}]})));
}

#[test]
fn a_default_alone_in_an_object_is_removed_with_it() {
    let live = json!({"variant": {"type": "Ref", "ref": {"kind": "Secret", "name": "n"}}});
    let from = json!({"variant": {"type": "Ref", "ref": {"name": "n"}}});
    assert_eq!(SCHEMA.patch(&live, Some(&from), &json!({})), Some(json!({"variant": null})));
}

#[test]
fn twins_in_a_keyed_list_are_counted() {
    let nic = json!({"type": "Net", "name": "a"});
    let live = json!({"nics": [nic, nic, nic]});
    let from = json!({"nics": [nic, nic]});
    let to = json!({"nics": [nic]});
    // One of the three entries belongs to another client.
    assert_eq!(SCHEMA.patch(&live, Some(&from), &to), Some(json!({"nics": [nic, nic]})));
}

fn kept(live: &Value, from: &Value, to: &Value) -> Value {
    let to = SCHEMA.keep_live(live, from, to, |_, one, other| one == other);
    let mut result = live.clone();
    if let Some(patch) = SCHEMA.patch(live, Some(from), &to) {
        json_patch::merge(&mut result, &patch);
    }
    result
}

/// A value, null if it is false.
fn without_false(value: &Value) -> Value {
    if *value == json!(false) { Value::Null } else { value.clone() }
}

#[rstest]
#[case::that_appears(json!({"b": 1}), json!({"b": 1}), json!({"a": false, "b": 2}), json!({"b": 2}))]
#[case::that_appears_beside_an_edit(json!({"a": true, "b": 1}), json!({"b": 1}), json!({"a": false, "b": 2}), json!({"a": true, "b": 2}))]
#[case::that_disappears(json!({"a": false, "b": 1}), json!({"a": false, "b": 1}), json!({"b": 2}), json!({"a": false, "b": 2}))]
#[case::that_disappears_beside_an_edit(json!({"a": true, "b": 1}), json!({"a": false, "b": 1}), json!({"b": 2}), json!({"a": true, "b": 2}))]
#[case::that_is_set(json!({"b": 1}), json!({"a": false, "b": 1}), json!({"a": true, "b": 1}), json!({"a": true, "b": 1}))]
#[case::that_replaces_another(json!({"a": true}), json!({"a": true}), json!({"a": false}), json!({"a": false}))]
#[case::that_another_leaves(json!({"a": true, "b": 1}), json!({"a": true, "b": 1}), json!({"b": 1}), json!({"b": 1}))]
fn a_value_that_equals_an_absent_one(
    #[case] mut live: Value,
    #[case] from: Value,
    #[case] to: Value,
    #[case] result: Value,
) {
    let is_same = |_: &str, one: &Value, other: &Value| without_false(one) == without_false(other);
    let to = SCHEMA.keep_live(&live, &from, &to, is_same);
    if let Some(patch) = SCHEMA.patch(&live, Some(&from), &to) {
        json_patch::merge(&mut live, &patch);
    }
    assert_eq!(live, result);
}

#[rstest]
#[case::an_edit_of_an_unchanged_field_stays(json!({"a": 7, "b": 1}), json!({"a": 1, "b": 1}), json!({"a": 1, "b": 2}), json!({"a": 7, "b": 2}))]
#[case::an_edit_of_a_changed_field_is_overwritten(json!({"a": 7}), json!({"a": 1}), json!({"a": 2}), json!({"a": 2}))]
#[case::a_removed_field_stays_removed(json!({"b": 1}), json!({"a": 1, "b": 1}), json!({"a": 1, "b": 2}), json!({"b": 2}))]
#[case::a_list_is_one_value(json!({"l": [7]}), json!({"l": [1], "b": 1}), json!({"l": [1]}), json!({"l": [7]}))]
#[case::an_item_of_a_keyed_list_is_merged(
    json!({"nics": [{"type": "Net", "name": "a", "id": 7, "mtu": 1}]}),
    json!({"nics": [{"type": "Net", "name": "a", "id": 1, "mtu": 1}]}),
    json!({"nics": [{"type": "Net", "name": "a", "id": 1, "mtu": 2}]}),
    json!({"nics": [{"type": "Net", "name": "a", "id": 7, "mtu": 2}]}))]
#[case::an_item_that_was_removed_stays_removed(
    json!({"nics": [{"type": "Net", "name": "b"}]}),
    json!({"nics": [{"type": "Net", "name": "a"}, {"type": "Net", "name": "b"}]}),
    json!({"nics": [{"type": "Net", "name": "a"}, {"type": "Net", "name": "b"}, {"type": "Net", "name": "c"}]}),
    json!({"nics": [{"type": "Net", "name": "b"}, {"type": "Net", "name": "c"}]}))]
fn writes_only_what_the_template_changed(
    #[case] live: Value,
    #[case] from: Value,
    #[case] to: Value,
    #[case] expected: Value,
) {
    assert_eq!(kept(&live, &from, &to), expected);
}

#[test]
fn a_key_can_be_a_nested_field() {
    let schema = Schema { keyed: &[("/l", &["/metadata/name"])], ..Schema::default() };
    let item = |name: &str, value: i32| json!({ "metadata": { "name": name }, "value": value });
    let live = json!({ "l": [item("a", 1), item("theirs", 1)] });
    let patch = schema.patch(&live, None, &json!({ "l": [item("b", 2), item("a", 2)] }));
    assert_eq!(patch, Some(json!({ "l": [item("b", 2), item("a", 2), item("theirs", 1)] })));
}

/// The depth of the values in the properties.
const TOP: u32 = 2;

/// Values in which a key always has values of one type, as a schema requires.
fn object(depth: u32) -> BoxedStrategy<Value> {
    let value = prop_oneof![(0..3).prop_map(Value::from), Just(json!("slow")), Just(Value::Null)];
    let scalar = (prop_oneof![Just("va"), Just("vb"), Just("mode"), Just("depth")], value);
    let item =
        prop::collection::vec((prop_oneof![Just("va"), Just("vb")], (0..2).prop_map(Value::from)), 0..3);
    let list = prop::collection::vec(item.prop_map(map), 0..3).prop_map(|items| json!(items));
    let list = (prop_oneof![Just("la"), Just("lb")], list);
    let kind = prop_oneof![Just("Main"), Just("Net")];
    let nic = (kind, prop_oneof![Just("a"), Just("b")], prop::option::of(1..3i32));
    let nic = nic.prop_map(|(kind, name, id)| {
        let mut nic = json!({"type": kind, "name": name});
        if let Some(id) = id {
            nic["id"] = id.into();
        }
        nic
    });
    let nics = (Just("nics"), prop::collection::vec(nic, 0..3).prop_map(|nics| json!(nics)));
    // The schema defines them only at the top level.
    let entry = match depth {
        0 => prop_oneof![scalar, list].boxed(),
        TOP => prop_oneof![scalar, list, nics, nested(depth)].boxed(),
        _ => prop_oneof![scalar, list, nested(depth)].boxed(),
    };
    prop::collection::vec(entry, 0..5).prop_map(map).boxed()
}

fn nested(depth: u32) -> impl Strategy<Value = (&'static str, Value)> {
    (prop_oneof![Just("oa"), Just("ob"), Just("nest")], object(depth - 1))
}

fn map(entries: Vec<(&'static str, Value)>) -> Value {
    Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Paths and values of all set fields, with each list as one value.
fn leaves(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Null => {}
        Value::Object(object) => {
            object.iter().for_each(|(key, value)| leaves(&path_below(path, key), value, found));
        }
        value => found.push((path.to_owned(), value.clone())),
    }
}

fn leaves_of(value: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    leaves("", value, &mut found);
    found
}

fn is_list(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|key| key.starts_with('l') || key == "nics")
}

proptest! {
    #[test]
    fn what_is_wanted_stands_there_afterwards(live in object(TOP), from in object(TOP), to in object(TOP)) {
        let result = applied(&live, Some(&from), &to);
        for (path, wanted) in leaves_of(&to) {
            match result.pointer(&path).filter(|found| !found.is_null()) {
                None => prop_assert!(SCHEMA.is_default(&path, &wanted), "{} is missing in {}", path, result),
                Some(found) if path.ends_with("/nics") => {
                    let (found, wanted) = (found.as_array().unwrap(), wanted.as_array().unwrap());
                    for (found, wanted) in found.iter().zip(wanted) {
                        prop_assert!(leaves_of(wanted).iter().all(|leaf| leaves_of(found).contains(leaf)));
                    }
                    prop_assert!(found.len() >= wanted.len());
                }
                // A default that the server filled in counts as equal.
                Some(found) if is_list(&path) => prop_assert_eq!(
                    found.as_array().unwrap().len(), wanted.as_array().unwrap().len()),
                Some(found) => prop_assert_eq!(found, &wanted, "{}", path),
            }
        }
    }

    #[test]
    fn what_no_template_set_stays_as_it_is(live in object(TOP), from in object(TOP), to in object(TOP)) {
        let result = applied(&live, Some(&from), &to);
        let ours: Vec<String> =
            leaves_of(&from).into_iter().chain(leaves_of(&to)).map(|(path, _)| path).collect();
        for (path, value) in leaves_of(&live).into_iter().filter(|(path, _)| !ours.contains(path)) {
            // A default that no client changed is removed with the object around it.
            if SCHEMA.is_default(&path, &value) {
                continue;
            }
            prop_assert_eq!(result.pointer(&path), Some(&value), "{}", path);
        }
    }

    #[test]
    fn what_only_the_former_template_set_is_gone(live in object(TOP), from in object(TOP), to in object(TOP)) {
        let result = applied(&live, Some(&from), &to);
        let wanted: Vec<String> = leaves_of(&to).into_iter().map(|(path, _)| path).collect();
        for (path, _) in leaves_of(&from).into_iter().filter(|(path, _)| !wanted.contains(path)) {
            match result.pointer(&path) {
                Some(left) if path.ends_with("/nics") => prop_assert!(
                    left.as_array().unwrap().len() <= live.pointer(&path).unwrap().as_array().unwrap().len()),
                left => prop_assert!(left.is_none_or(|left| left.is_null() || SCHEMA.is_default(&path, left)), "{}", path),
            }
        }
    }

    #[test]
    fn a_second_time_nothing_differs(live in object(TOP), from in object(TOP), to in object(TOP)) {
        let result = applied(&live, Some(&from), &to);
        prop_assert_eq!(SCHEMA.patch(&result, Some(&to), &to), None);
        prop_assert_eq!(SCHEMA.patch(&result, None, &to), None);
    }

    #[test]
    fn equal_templates_change_nothing_and_a_second_time_nothing_differs(
        live in object(TOP), from in object(TOP), to in object(TOP),
    ) {
        prop_assert_eq!(&kept(&live, &to, &to), &live);
        let result = kept(&live, &from, &to);
        prop_assert_eq!(kept(&result, &to, &to), result);
    }

    #[test]
    fn without_a_former_template_nothing_is_taken_away(live in object(TOP), to in object(TOP)) {
        let result = applied(&live, None, &to);
        for (path, value) in leaves_of(&live) {
            let found = result.pointer(&path);
            prop_assert!(found.is_some(), "{} is gone", path);
            if path.ends_with("/nics") {
                prop_assert!(found.unwrap().as_array().unwrap().len() >= value.as_array().unwrap().len());
            }
        }
    }

    #[test]
    fn there_and_back_again(from in object(TOP), to in object(TOP), theirs in 0..3i32) {
        let mut live = from.clone();
        live["theirs"] = theirs.into();
        let there = applied(&live, Some(&from), &to);
        let back = applied(&there, Some(&to), &from);
        prop_assert_eq!(SCHEMA.patch(&back, Some(&from), &from), None);
        prop_assert_eq!(&back["theirs"], &json!(theirs));
    }
}
