use super::*;
use std::time::Duration;

fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (format!("{PREFIX}{k}"), (*v).to_owned())).collect()
}

#[test]
fn the_objects_knob_has_precedence_over_the_namespace() {
    let (own, errors) = Knobs::from_annotations(&annotations(&[("start-delay", "5s")]));
    assert!(errors.is_empty());
    let (namespace, _) = Knobs::from_config(&BTreeMap::from([
        ("start-delay".to_owned(), "1s".to_owned()),
        ("stop-delay".to_owned(), "never".to_owned()),
    ]));
    let both = Effective::new(own.as_deref(), Some(&namespace));
    assert_eq!(both.get(|k| k.start_delay), Some(Delay::After(Duration::from_secs(5))));
    assert_eq!(both.get(|k| k.stop_delay), Some(Delay::Never));
    assert_eq!(both.get(|k| k.crash), None);
}

#[test]
fn an_invalid_knob_is_reported_and_the_others_apply() {
    let (own, errors) = Knobs::from_annotations(&annotations(&[
        ("crash", "true"),
        ("flap-phase", "0"),
        ("start-dely", "5s"),
        ("stop-delay", "5"),
        ("launcher-container", "[]"),
        ("address", "nowhere"),
    ]));
    assert_eq!(own.map(|k| k.crash), Some(Some(Delay::NONE)));
    assert_eq!(errors.len(), 5, "{errors:?}");
}

#[test]
fn the_simulators_own_records_are_not_knobs() {
    let (own, errors) = Knobs::from_annotations(&annotations(&[("mount-log", "a,b"), ("bumped", "7")]));
    assert_eq!((own, errors), (None, vec![]));
}
