use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;

const TEAM: &str = "team-a";

/// The pool with this UID.
fn key(uid: &str) -> PoolKey {
    PoolKey::new(&TEAM.into(), &uid.into())
}

/// Images with the reasons why they cannot be used.
#[derive(Default)]
struct Known {
    unread: AtomicBool,
    blocked: Mutex<BTreeMap<ObjectKey, &'static str>>,
}

impl Images for Known {
    fn is_synced(&self) -> bool {
        !self.unread.load(Ordering::Relaxed)
    }

    fn blocker(&self, _pool: &PoolKey, source: &NamedSource) -> Option<UnusableTemplate> {
        let message = self.blocked.lock().get(&source.key).copied()?;
        Some(UnusableTemplate { reason: ConditionReason::ImageSyncing, message: message.to_owned() })
    }
}

impl Known {
    fn set(&self, image: &str, message: Option<&'static str>) {
        let key = ObjectKey::new(TEAM, image);
        match message {
            Some(message) => drop(self.blocked.lock().insert(key, message)),
            None => drop(self.blocked.lock().remove(&key)),
        }
    }
}

/// A gate, its images, and the pools that it has woken.
struct Setup {
    gate: ImageGate,
    known: Arc<Known>,
    woken: Arc<Mutex<Vec<String>>>,
}

impl Setup {
    fn new() -> Self {
        let (gate, known, woken) =
            (ImageGate::unknown(), Arc::new(Known::default()), Arc::<Mutex<Vec<String>>>::default());
        let images: Weak<Known> = Arc::downgrade(&known);
        gate.serve(images);
        let list = woken.clone();
        gate.on_change(move |pool| {
            list.lock().push(pool.uid.as_str().to_owned());
            true
        });
        Self { gate, known, woken }
    }

    /// What the pool waits for.
    fn look(&self, pool: &str, image: &str) -> Option<String> {
        let source = json!({ "kind": "DataSource", "name": image });
        let template = json!({ "dataVolumeTemplates": [{ "spec": { "sourceRef": source } }] });
        self.gate.blocker(&key(pool), &template).map(|why| why.message)
    }

    /// An image changes.
    fn change(&self, image: &str, message: Option<&'static str>) {
        self.known.set(image, message);
        self.gate.changed(&BTreeSet::from([ObjectKey::new(TEAM, image)]));
    }

    fn take_woken(&self) -> Vec<String> {
        std::mem::take(&mut self.woken.lock())
    }
}

#[test]
fn a_pool_is_woken_when_its_image_becomes_ready_or_is_lost_and_not_by_other_images() {
    let gate = Setup::new();
    gate.known.set("debian", Some("importing"));
    gate.known.set("fedora", Some("importing"));
    assert_eq!(gate.look("web", "debian").as_deref(), Some("importing"));
    gate.change("fedora", None);
    assert_eq!(gate.take_woken(), [""; 0]);
    gate.change("debian", None);
    assert_eq!(gate.take_woken(), ["web"]);
    // A pool that does not wait says so when its image is lost.
    assert_eq!(gate.look("web", "debian"), None);
    gate.change("debian", None);
    assert_eq!(gate.take_woken(), [""; 0]);
    gate.change("debian", Some("lost"));
    assert_eq!(gate.take_woken(), ["web"]);
    assert_eq!(gate.look("web", "debian").as_deref(), Some("lost"));
    // A template that names no image any more is not concerned.
    gate.gate.blocker(&key("web"), &json!({}));
    gate.change("debian", None);
    assert_eq!(gate.take_woken(), [""; 0]);
}

#[test]
fn a_change_that_says_the_same_to_a_pool_does_not_wake_it() {
    let gate = Setup::new();
    gate.known.set("debian", Some("importing"));
    gate.look("web", "debian");
    gate.change("debian", Some("importing"));
    assert_eq!(gate.take_woken(), [""; 0]);
    gate.change("debian", Some("the source is missing"));
    assert_eq!(gate.take_woken(), ["web"]);
    assert_eq!(gate.look("web", "debian").as_deref(), Some("the source is missing"));
}

#[test]
fn a_pool_that_is_gone_is_not_woken() {
    let gate = Setup::new();
    gate.known.set("debian", Some("importing"));
    gate.look("web", "debian");
    gate.gate.forget(&key("web"));
    gate.change("debian", None);
    assert_eq!(gate.take_woken(), [""; 0]);
}

#[test]
fn pools_that_wait_for_the_first_list_are_woken_after_it() {
    let gate = Setup::new();
    gate.known.unread.store(true, Ordering::Relaxed);
    assert!(gate.look("web", "debian").is_some_and(|why| why.contains("not read")));
    gate.known.unread.store(false, Ordering::Relaxed);
    gate.gate.all_changed();
    assert_eq!(gate.take_woken(), ["web"]);
}

#[test]
fn without_images_in_the_cluster_no_pool_waits() {
    let gate = Setup::new();
    gate.known.set("debian", Some("importing"));
    gate.look("web", "debian");
    gate.gate.close();
    assert_eq!(gate.take_woken(), ["web"]);
    assert_eq!(gate.look("web", "debian"), None);
    // When they are there again, it waits.
    let images: Weak<Known> = Arc::downgrade(&gate.known);
    gate.gate.serve(images);
    assert_eq!(gate.take_woken(), ["web"]);
    assert_eq!(gate.look("web", "debian").as_deref(), Some("importing"));
}

#[test]
fn a_platform_that_has_ended_is_dropped() {
    let gate = Setup::new();
    gate.gate.on_change(|_| false);
    gate.known.set("debian", Some("importing"));
    gate.look("web", "debian");
    gate.change("debian", None);
    assert_eq!(gate.take_woken(), ["web"]);
    assert_eq!(gate.gate.0.wakers.lock().len(), 1);
}
