use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rstest::rstest;
use vmpool_engine::Uid;

use super::*;

const SOURCE: &str = "DataSource";
const CLAIM: &str = "PersistentVolumeClaim";

fn object(kind: &'static str, namespace: &str, name: &str) -> DiskSourceRef {
    DiskSourceRef { kind, key: ObjectKey::new(namespace, name) }
}

fn content(id: &str) -> DiskSourceState {
    DiskSourceState::Content { id: id.into(), created: Timestamp::UNIX_EPOCH }
}

fn leads_to(kind: &'static str, namespace: &str, name: &str) -> DiskSourceState {
    DiskSourceState::LeadsTo(object(kind, namespace, name))
}

fn pool(name: &str) -> PoolKey {
    PoolKey::new(&Arc::from("team"), &Uid::from(name))
}

fn store(namespaces: &[&str]) -> DiskSourceStore {
    let namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
    DiskSourceStore::new(Some(ImageRefreshSettings { namespaces }))
}

fn id_of(store: &DiskSourceStore, source: &DiskSourceRef) -> Option<String> {
    let named = NamedDiskSource { template: "root".into(), source: source.clone() };
    let contents = store.find_contents(&pool("web"), vec![named]);
    contents.get("root").map(|content| format!("{}@{}", content.source, content.id))
}

#[test]
fn a_source_is_followed_to_its_content() {
    let store = store(&[]);
    let source = object(SOURCE, "team", "debian");
    assert_eq!(id_of(&store, &source), None, "it does not exist");
    store.set(&source, Some(leads_to(SOURCE, "team", "alias")));
    store.set(&object(SOURCE, "team", "alias"), Some(leads_to(CLAIM, "team", "v1")));
    assert_eq!(id_of(&store, &source), None);
    store.set(&object(CLAIM, "team", "v1"), Some(DiskSourceState::Unready));
    assert_eq!(id_of(&store, &source), None);
    store.set(&object(CLAIM, "team", "v1"), Some(content("u1")));
    assert_eq!(id_of(&store, &source).as_deref(), Some("DataSource/team/debian@u1"));
}

#[test]
fn a_circle_has_no_content() {
    let store = store(&[]);
    let source = object(SOURCE, "team", "debian");
    store.set(&source, Some(leads_to(SOURCE, "team", "debian")));
    assert_eq!(id_of(&store, &source), None);
}

#[rstest]
#[case::not_named(&[], None)]
#[case::named(&["images"], Some("DataSource/team/debian@u1"))]
fn content_of_another_namespace_counts_only_if_the_settings_name_it(
    #[case] namespaces: &[&str],
    #[case] expected: Option<&str>,
) {
    let store = store(namespaces);
    let source = object(SOURCE, "team", "debian");
    store.set(&source, Some(leads_to(CLAIM, "images", "v1")));
    store.set(&object(CLAIM, "images", "v1"), Some(content("u1")));
    assert_eq!(id_of(&store, &source).as_deref(), expected);
}

#[test]
fn an_object_without_a_namespace_is_read() {
    let store = store(&[]);
    let image = object("ClusterVirtualImage", "", "alpine");
    store.set(&image, Some(content("u1")));
    assert_eq!(id_of(&store, &image).as_deref(), Some("ClusterVirtualImage/alpine@u1"));
}

#[test]
fn without_settings_nothing_is_followed() {
    let store = DiskSourceStore::default();
    let image = object("ClusterVirtualImage", "", "alpine");
    store.set(&image, Some(content("u1")));
    assert_eq!(id_of(&store, &image), None);
}

#[test]
fn a_pool_is_woken_by_each_object_on_the_way_and_by_no_other() {
    let store = store(&[]);
    let woken: Arc<Mutex<BTreeSet<PoolKey>>> = Arc::default();
    store.on_change({
        let woken = woken.clone();
        move |pool| {
            woken.lock().insert(pool.clone());
            true
        }
    });
    let (source, claim) = (object(SOURCE, "team", "debian"), object(CLAIM, "team", "v1"));
    id_of(&store, &source);
    let is_woken_by = |object: &DiskSourceRef, state: DiskSourceState| {
        store.set(object, Some(state));
        std::mem::take(&mut *woken.lock()) == BTreeSet::from([pool("web")])
    };
    assert!(is_woken_by(&source, leads_to(CLAIM, "team", "v1")));
    assert!(!is_woken_by(&claim, content("u1")), "no pass has seen yet that the source leads to it");
    id_of(&store, &source);
    assert!(!is_woken_by(&claim, content("u1")), "it is the same");
    assert!(is_woken_by(&claim, content("u2")));
    assert!(!is_woken_by(&object(CLAIM, "team", "v2"), content("u3")));
    store.forget(&pool("web"));
    assert!(!is_woken_by(&claim, content("u4")));
}

#[test]
fn a_list_replaces_the_objects_of_its_kind_and_namespace() {
    let store = store(&["images"]);
    let (old, other) = (object(CLAIM, "team", "v1"), object(CLAIM, "images", "v1"));
    let image = object("ClusterVirtualImage", "", "alpine");
    for object in [&old, &other, &image] {
        store.set(object, Some(content("u1")));
    }
    let listed = BTreeMap::from([(ObjectKey::new("team", "v2"), content("u2"))]);
    store.replace(CLAIM, Some("team"), listed);
    assert_eq!(id_of(&store, &old), None);
    assert!(id_of(&store, &object(CLAIM, "team", "v2")).is_some());
    assert!(id_of(&store, &other).is_some() && id_of(&store, &image).is_some());
    store.replace(CLAIM, None, BTreeMap::new());
    assert_eq!(id_of(&store, &other), None);
    assert!(id_of(&store, &image).is_some());
}
