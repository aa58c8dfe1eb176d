use vmpool_engine::ledger::LedgerCache as _;
use vmpool_engine::model::{DiskRef, MachineActivity, Owner, OwnerKind};
use vmpool_engine::{Disk, Machine, ObjectId};
use vmpool_platforms::DiskAttachment;

use super::*;
use crate::pools::pool_key::PoolKey;

const NAMESPACE: &str = "team-a";

fn machine(name: &str, owner: Option<&str>) -> Machine {
    let id = ObjectId::new(name, &format!("uid of {name}"));
    let owner = owner.map(|uid| Arc::new(Owner::pool(&ObjectId::new(uid, uid))));
    Machine { owner, ..Machine::blank(id) }
}

fn at(version: u64, facts: Machine) -> Located<Machine> {
    Located { namespace: NAMESPACE.into(), seen: VersionedFacts { facts: Arc::new(facts), version } }
}

fn names(replicas: &[Arc<Machine>]) -> Vec<&str> {
    replicas.iter().map(|machine| &*machine.id.name).collect()
}

fn pool(uid: &str) -> CacheKey {
    pool_in(NAMESPACE, uid)
}

fn pool_in(namespace: &str, uid: &str) -> CacheKey {
    CacheKey::Pool(PoolKey::new(&namespace.into(), &uid.into()))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn machines_are_found_by_owner_by_label_and_by_disk() {
    let cache = ObjectCache::<Machine>::default();
    let mut labelled = machine("labelled", None);
    labelled.pool_uid_label = Some("web".into());
    let mut user = machine("user", Some("other"));
    user.disks.push(DiskRef { template: None, disk: "scratch".into(), position: 0 });
    cache.applied(at(1, machine("owned", Some("web"))));
    cache.applied(at(2, labelled));
    cache.applied(at(3, user));
    assert_eq!(names(&cache.by_key(&pool("web"))), ["labelled", "owned"]);
    assert_eq!(names(&cache.by_key(&CacheKey::Disk(NAMESPACE.into(), "scratch".into()))), ["user"]);
    assert!(cache.by_key(&CacheKey::Disk("team-b".into(), "scratch".into())).is_empty());
    assert!(cache.by_key(&pool("absent")).is_empty());
}

#[test]
fn machines_are_found_by_disks_that_only_their_status_shows() {
    let cache = ObjectCache::<Machine>::default();
    let mut letting_go = machine("letting-go", Some("web"));
    letting_go.lingering.push("scratch".into());
    cache.applied(at(1, letting_go));
    assert_eq!(names(&cache.by_key(&CacheKey::Disk(NAMESPACE.into(), "scratch".into()))), ["letting-go"]);
}

fn disk(name: &str, owner: Option<&str>, label: Option<&str>) -> Located<Disk> {
    let disk = Disk {
        owner: owner.map(|uid| Owner::pool(&ObjectId::new("owner", uid))),
        pool_uid_label: label.map(Uid::from),
        ..Disk::blank(ObjectId::new(name, &format!("uid of {name}")))
    };
    Located { namespace: NAMESPACE.into(), seen: VersionedFacts { facts: Arc::new(disk), version: 1 } }
}

fn disk_names(disks: &[Arc<Disk>]) -> Vec<&str> {
    disks.iter().map(|disk| &*disk.id.name).collect()
}

#[test]
fn disks_are_found_by_owner_and_by_label_and_wake_pools_that_refer_to_them() {
    let cache = ObjectCache::<Disk>::default();
    let named = |name: &str| CacheKey::Disk(NAMESPACE.into(), name.into());
    assert_eq!(cache.applied(disk("kept", Some("web"), Some("web"))), [pool("web"), named("kept")]);
    assert_eq!(
        cache.applied(disk("of-a-former-pool", Some("former"), Some("web"))),
        [pool("former"), pool("web"), named("of-a-former-pool")]
    );
    let mut of_a_machine = disk("of-a-machine", None, Some("web"));
    let facts = Disk {
        owner: Some(Owner::machine(&ObjectId::new("m", "web"))),
        ..(*of_a_machine.seen.facts).clone()
    };
    of_a_machine.seen.facts = Arc::new(facts);
    assert_eq!(cache.applied(of_a_machine), [pool("web"), named("of-a-machine")]);
    cache.applied(disk("lost-its-label", Some("web"), None));
    cache.applied(disk("of-others", None, None));
    assert_eq!(
        disk_names(&cache.by_key(&pool("web"))),
        ["kept", "lost-its-label", "of-a-former-pool", "of-a-machine"]
    );
    let kept = cache.by_key_where(&pool("web"), |disk| disk.pool_uid_label.is_none());
    assert_eq!(disk_names(&kept), ["lost-its-label"]);
}

#[test]
fn attachments_are_found_by_their_machine_and_disk() {
    let cache = ObjectCache::<DiskAttachment>::default();
    let attachment = |disk: Option<&str>| {
        let facts = DiskAttachment { id: ObjectId::new("by-hand", "a"), disk: disk.map(Into::into) };
        Located { namespace: NAMESPACE.into(), seen: VersionedFacts { facts: Arc::new(facts), version: 1 } }
    };
    let key = CacheKey::Disk(NAMESPACE.into(), "scratch".into());
    assert_eq!(cache.applied(attachment(Some("scratch"))), std::slice::from_ref(&key));
    assert_eq!(cache.by_key(&key).len(), 1);
    // A device of another kind with the same name is another device.
    assert_eq!(cache.applied(attachment(None)), std::slice::from_ref(&key));
    assert!(cache.by_key(&key).is_empty());
}

#[test]
fn a_shared_disk_lists_its_machines_in_order_until_they_drop_it() {
    let cache = ObjectCache::<Machine>::default();
    let key = CacheKey::Disk(NAMESPACE.into(), "shared".into());
    let user = |name: &str| {
        let mut user = machine(name, None);
        user.disks.push(DiskRef { template: None, disk: "shared".into(), position: 0 });
        user
    };
    for name in ["c", "a", "b", "a"] {
        cache.applied(at(1, user(name)));
    }
    assert_eq!(names(&cache.by_key(&key)), ["a", "b", "c"]);
    for (gone, left) in [("a", vec!["b", "c"]), ("c", vec!["b"]), ("b", vec![])] {
        cache.applied(at(2, machine(gone, None)));
        assert_eq!(names(&cache.by_key(&key)), left);
    }
    assert!(cache.inner.read().index.is_empty());
}

#[test]
fn a_change_of_owner_concerns_both_pools_and_moves_the_index() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(1, machine("m", Some("web"))));
    assert_eq!(cache.applied(at(2, machine("m", Some("db")))), [pool("web"), pool("db")]);
    assert!(cache.by_key(&pool("web")).is_empty());
    assert_eq!(names(&cache.by_key(&pool("db"))), ["m"]);
}

#[test]
fn equal_facts_wake_no_pool_but_advance_the_version() {
    let cache = ObjectCache::<Machine>::default();
    assert_eq!(cache.applied(at(1, machine("m", Some("web")))), [pool("web")]);
    assert!(cache.applied(at(9, machine("m", Some("web")))).is_empty());
    assert_eq!(cache.get(NAMESPACE, "m").unwrap().version, 9);
}

#[test]
fn a_machine_that_becomes_ready_wakes_its_pool_once() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(1, machine("m", Some("web"))));
    let mut running = machine("m", Some("web"));
    running.activity = MachineActivity::Running;
    let concerned = cache.applied(at(2, running));
    assert!(concerned.iter().all(|key| *key == pool("web")) && !concerned.is_empty());
}

#[test]
fn a_list_counts_when_it_is_complete_and_then_replaces_everything() {
    let cache = ObjectCache::<Machine>::default();
    assert!(!cache.is_synced());
    cache.begin_list(seconds(10));
    cache.listed(at(1, machine("a", Some("web"))));
    assert!(!cache.is_synced());
    assert!(cache.get(NAMESPACE, "a").is_none());
    assert_eq!(cache.end_list(), [pool("web")]);
    assert!(cache.is_synced());

    cache.begin_list(seconds(20));
    cache.listed(at(5, machine("b", Some("db"))));
    assert!(cache.get(NAMESPACE, "a").is_some(), "the old content stays until the list is complete");
    let concerned = cache.end_list();
    assert!(concerned.contains(&pool("web")) && concerned.contains(&pool("db")));
    assert!(cache.get(NAMESPACE, "a").is_none());
    assert!(cache.by_key(&pool("web")).is_empty());
    assert_eq!(names(&cache.by_key(&pool("db"))), ["b"]);
}

#[test]
fn an_incomplete_list_changes_nothing() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(1, machine("a", Some("web"))));
    cache.begin_list(seconds(10));
    cache.listed(at(2, machine("half", Some("web"))));
    cache.begin_list(seconds(20));
    cache.listed(at(3, machine("a", Some("web"))));
    assert!(cache.end_list().is_empty(), "the same facts as before");
    assert!(cache.get(NAMESPACE, "half").is_none());
    assert!(cache.end_list().is_empty(), "an end without a beginning");
    assert!(cache.get(NAMESPACE, "a").is_some());
}

#[test]
fn only_a_list_that_began_later_proves_absence() {
    let cache = ObjectCache::<Machine>::default();
    assert!(!cache.of(NAMESPACE).relisted_since(seconds(0)));
    cache.begin_list(seconds(10));
    assert!(!cache.of(NAMESPACE).relisted_since(seconds(5)), "it is not complete");
    cache.end_list();
    assert!(cache.of(NAMESPACE).relisted_since(seconds(9)));
    assert!(!cache.of(NAMESPACE).relisted_since(seconds(10)));
    assert!(!cache.of(NAMESPACE).relisted_since(seconds(11)));
}

#[test]
fn a_deletion_removes_the_object_and_is_remembered_for_a_while() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(1, machine("m", Some("web"))));
    assert_eq!(cache.deleted(&at(2, machine("m", Some("web"))), seconds(100)), [pool("web")]);
    assert!(cache.get(NAMESPACE, "m").is_none());
    assert!(cache.by_key(&pool("web")).is_empty());
    let uid = Uid::from("uid of m");
    assert!(cache.of(NAMESPACE).saw_deleted(&uid));
    assert!(!cache.of(NAMESPACE).saw_deleted(&Uid::from("another")));

    // Entries expire when further deletions are recorded.
    cache.deleted(&at(3, machine("n", None)), seconds(100) + REMEMBER_DELETIONS);
    assert!(cache.of(NAMESPACE).saw_deleted(&uid));
    cache.deleted(&at(4, machine("o", None)), seconds(101) + REMEMBER_DELETIONS);
    assert!(!cache.of(NAMESPACE).saw_deleted(&uid));
    assert_eq!(cache.inner.read().deleted.len(), 2);
}

#[test]
fn a_deletion_of_an_unknown_object_is_remembered_too() {
    let cache = ObjectCache::<Machine>::default();
    assert!(cache.deleted(&at(2, machine("m", Some("web"))), seconds(1)).is_empty());
    assert!(cache.of(NAMESPACE).saw_deleted(&Uid::from("uid of m")));
}

#[test]
fn deleted_objects_use_no_memory() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(1, machine("m", Some("web"))));
    cache.deleted(&at(2, machine("m", Some("web"))), seconds(1));
    let inner = cache.inner.read();
    assert!(inner.objects.is_empty() && inner.index.is_empty());
}

#[test]
fn namespaces_are_apart() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(1, machine("m", Some("web"))));
    assert!(cache.get("team-b", "m").is_none());
    assert!(cache.of("team-b").get("m").is_none());
    assert_eq!(cache.of(NAMESPACE).get("m").unwrap().version, 1);
}

/// A user of another namespace can copy the UID of a pool into owner references and labels.
#[test]
fn objects_of_another_namespace_are_not_found_for_a_pool_and_do_not_wake_it() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(1, machine("member", Some("web"))));
    let mut labelled = machine("labelled", None);
    labelled.pool_uid_label = Some("web".into());
    for forged in [machine("owned", Some("web")), labelled] {
        let key = pool_in("evil", "web");
        let forged = Located { namespace: "evil".into(), ..at(2, forged) };
        assert_eq!(cache.applied(forged), [key]);
    }
    assert_eq!(names(&cache.by_key(&pool("web"))), ["member"]);
    assert_eq!(names(&cache.by_key(&pool_in("evil", "web"))), ["labelled", "owned"]);

    let disks = ObjectCache::<Disk>::default();
    let decoy = Located { namespace: "evil".into(), ..disk("decoy", Some("web"), Some("web")) };
    assert!(!disks.applied(decoy).contains(&pool("web")));
    assert!(disks.by_key(&pool("web")).is_empty());
}

#[test]
fn an_owner_of_another_kind_is_no_pool() {
    let cache = ObjectCache::<Machine>::default();
    let id = ObjectId::new("web", "web");
    for kind in [OwnerKind::Machine, OwnerKind::Other] {
        let owner = Some(Arc::new(Owner { kind, id: id.clone() }));
        assert!(cache.applied(at(1, Machine { owner, ..machine("forged", None) })).is_empty());
        assert!(cache.by_key(&pool("web")).is_empty());
    }
}

#[test]
fn a_shown_write_proves_that_all_earlier_changes_were_shown() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(10, machine("a", None)));
    assert_eq!(cache.proven(), None, "the list may be stale");
    cache.wrote(12, seconds(5));
    cache.wrote(14, seconds(6));
    cache.applied(at(11, machine("a", None)));
    assert_eq!(cache.proven(), None);
    cache.applied(at(13, machine("b", None)));
    assert_eq!(cache.proven(), Some(seconds(5)));
    cache.deleted(&at(14, machine("b", None)), seconds(9));
    assert_eq!(cache.proven(), Some(seconds(6)));
    cache.wrote(12, seconds(8));
    assert_eq!(cache.proven(), Some(seconds(8)), "the watch delivered the object before the response");
    cache.wrote(13, seconds(7));
    assert_eq!(cache.proven(), Some(seconds(8)), "older progress does not replace newer progress");
}

#[test]
fn a_list_alone_proves_nothing() {
    let cache = ObjectCache::<Machine>::default();
    cache.begin_list(seconds(3));
    cache.listed(at(20, machine("a", None)));
    cache.wrote(19, seconds(4));
    assert_eq!(cache.proven(), None, "it is not complete");
    cache.end_list();
    assert_eq!(cache.proven(), None);
    cache.applied(at(21, machine("a", None)));
    assert_eq!(cache.proven(), Some(seconds(4)));
}

#[test]
fn versions_before_a_list_are_no_evidence_after_it() {
    let cache = ObjectCache::<Machine>::default();
    cache.applied(at(90, machine("a", None)));
    // The storage is restored from a backup, and all objects are listed again.
    cache.begin_list(seconds(3));
    cache.listed(at(20, machine("a", None)));
    cache.end_list();
    cache.wrote(22, seconds(5));
    assert_eq!(cache.proven(), None, "no event arrived since the list");
    cache.applied(at(22, machine("b", None)));
    assert_eq!(cache.proven(), Some(seconds(5)));
}
