//! The table of platforms, and what follows from it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::admission::{AdmissionSettings, admission_rules};
use crate::removal::{APIS, STANDALONE_APIS, StoredApi};
use crate::{ApiObject, Platform, PlatformName, RegisteredPlatform as _, with_platform};

/// The distinct values that `value` has for the platforms.
fn distinct<T: Ord>(value: impl Fn(PlatformName) -> T) -> BTreeSet<T> {
    PlatformName::ALL.into_iter().map(value).collect()
}

fn group<K: ApiObject>() -> String {
    K::group(&()).into_owned()
}

#[test]
fn a_name_reads_back_and_is_the_name_of_its_platform() {
    for name in PlatformName::ALL {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    assert_eq!(PlatformName::Dvp.as_str(), "dvp");
    assert_eq!(PlatformName::Kubevirt.as_str(), "kubevirt");
    assert_eq!("none".parse::<PlatformName>().unwrap_err().to_string(), r#""none" is no platform"#);
}

/// Flags, metrics, watches and routes tell the platforms apart.
#[test]
fn platforms_share_no_name_no_group_of_pools_and_no_path() {
    let all = PlatformName::ALL.len();
    assert_eq!(distinct(PlatformName::as_str).len(), all);
    assert_eq!(distinct(PlatformName::product).len(), all);
    assert_eq!(distinct(|name| with_platform!(name, P => group::<<P as Platform>::Pool>())).len(), all);
    let rules = admission_rules(&AdmissionSettings::default());
    let paths: BTreeSet<&str> = rules.iter().map(|rules| rules.kind().pool_path).collect();
    assert_eq!(paths.len(), all);
}

#[test]
fn the_rules_of_each_platform_are_about_its_pools() {
    let rules = admission_rules(&AdmissionSettings::default());
    let groups: Vec<&str> = rules.iter().map(|rules| rules.kind().group).collect();
    let expected = PlatformName::ALL.map(|name| with_platform!(name, P => group::<<P as Platform>::Pool>()));
    assert_eq!(groups, expected);
}

#[test]
fn the_apis_of_all_platforms_are_served_once() {
    let served: Vec<String> = APIS.group_versions().iter().map(ToString::to_string).collect();
    for group in [
        "subresources.virtualization.deckhouse.io/v1alpha2",
        "subresources.vmpool.dev/v1alpha1",
        "kubevirt.subresources.vmpool.dev/v1alpha1",
    ] {
        assert!(served.iter().any(|known| known == group), "{group} in {served:?}");
    }
    let of_platforms = PlatformName::ALL.map(|name| with_platform!(name, P => P::REMOVAL_APIS));
    assert!(of_platforms.iter().all(|apis| !apis.is_empty()), "{of_platforms:?}");
    assert_eq!(APIS.removal, of_platforms.concat());
    let groups: BTreeSet<&str> = APIS.removal.iter().map(|api| api.group).collect();
    assert_eq!(groups.len(), APIS.removal.len());
    assert_eq!(APIS.expansion.len(), 1);
    assert!(APIS.reference.is_none());
}

#[test]
fn the_group_of_a_platform_is_served_in_clusters_without_it_only() {
    let reference = STANDALONE_APIS.reference.unwrap();
    let groups: BTreeSet<&str> = reference.expansion.iter().map(|api| api.group).collect();
    assert_eq!(groups, BTreeSet::from(["subresources.kubevirt.io"]));
    assert_eq!(reference.installations.plural, "kubevirts");
    assert_eq!(STANDALONE_APIS.removal, APIS.removal);
}

/// Two descriptions of one resource are about one platform, so they read it in the same way.
#[test]
fn each_api_reads_the_objects_of_its_platform() {
    let readers: BTreeSet<String> =
        APIS.removal.iter().map(|api| format!("{:?}", api.stored.reader)).collect();
    let expected = distinct(|name| format!("StoredReader({:?})", name.as_str()));
    assert_eq!(readers, expected);
}

/// What a list of installations with these flags of its controller says about each platform.
fn blockers(flags: &Value) -> Vec<Option<String>> {
    let list = json!({ "items": [{
        "metadata": { "name": "kubevirt", "namespace": "kubevirt", "generation": 1 },
        "spec": { "customizeComponents": { "flags": { "controller": flags } } },
        "status": { "phase": "Deployed", "observedGeneration": 1 },
    }] });
    let list = serde_json::value::to_raw_value(&list).unwrap();
    let stored = APIS.removal.iter().map(|api| api.stored).filter(|stored| stored.installations.is_some());
    stored.map(|stored: &StoredApi| stored.read_blocker(&list).unwrap()).collect()
}

#[test]
fn installations_say_whether_the_platforms_own_controller_serves_the_pools() {
    assert_eq!(blockers(&json!({ "pool-controller-threads": "0" })), [None]);
    let blocked = blockers(&json!({ "pool-controller-threads": "3" }));
    assert!(matches!(&*blocked, [Some(why)] if why.contains(r#"is "3""#)), "{blocked:?}");
}

#[test]
fn a_list_without_items_is_no_list_of_installations() {
    let none = serde_json::value::to_raw_value(&json!({})).unwrap();
    assert!(APIS.removal.iter().all(|api| api.stored.read_blocker(&none).is_err()));
}
