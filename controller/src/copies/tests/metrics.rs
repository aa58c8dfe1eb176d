//! The values of the metrics of instance types and preferences.

use serde_json::{Value, json};

use super::*;

const KIND: &str = "VirtualMachineInstancetype";

impl LeaderWorld {
    /// The value of a series; `None` if there is no such series.
    fn value_of(&self, series: &str) -> Option<u64> {
        let page = self.metrics.page();
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(value.parse().unwrap())
    }

    fn failures(&self, kind: &str, reason: &str) -> u64 {
        let series =
            format!(r#"vmpool_instancetype_lookup_failures_total{{kind="{kind}",reason="{reason}"}}"#);
        self.value_of(&series).unwrap_or_else(|| panic!("there is no {series}"))
    }

    fn of_pool(&self, metric: &str, pool: &str) -> Option<u64> {
        self.value_of(&format!(r#"{metric}{{namespace="{NAMESPACE}",pool="{pool}"}}"#))
    }
}

#[tokio::test]
async fn copies_of_machines_and_of_pools_are_counted() {
    let world = world(Some(CopyPolicy::Reference)).await;
    let created = format!(r#"vmpool_instancetype_stashes_created_total{{kind="{KIND}"}}"#);
    assert_eq!(world.value_of(&created), Some(0));
    world.create_machine("db");
    world.calm().await;
    assert_eq!(world.value_of(&created), Some(1));
    world.run_pool("web").await;
    assert_eq!(world.value_of(&created), Some(2), "one for the revision, and none for its machine");
    // The next revision shares the copy.
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["metadata"]["labels"]["tier"] = json!("2");
    });
    world.calm().await;
    assert_eq!(world.value_of(&created), Some(2));
}

/// What a machine names, and what is in the cluster.
#[derive(Clone, Copy)]
enum Lookup {
    /// An instance type that does not exist.
    Missing,
    /// An instance type that sets what the machine sets.
    Conflict,
    /// A copy of another instance type.
    Foreign,
    /// A ControllerRevision with another content.
    Unreadable,
}

impl Lookup {
    /// Changes the spec of a machine or of a template.
    fn apply(self, spec: &mut Value) {
        match self {
            Self::Missing => spec["instancetype"]["name"] = json!("missing"),
            Self::Conflict => spec["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" }),
            Self::Foreign | Self::Unreadable => spec["instancetype"]["revisionName"] = json!("named"),
        }
    }

    /// The ControllerRevision `named`.
    fn revision(self) -> Option<Value> {
        let data = match self {
            Self::Missing | Self::Conflict => return None,
            Self::Foreign => json!({
                "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": KIND, "metadata": { "name": "large" },
                "spec": { "cpu": { "guest": 2 }, "memory": { "guest": "1Gi" } },
            }),
            Self::Unreadable => json!({ "spec": "hunter2" }),
        };
        Some(json!({ "metadata": { "name": "named", "namespace": NAMESPACE }, "revision": 1, "data": data }))
    }
}

#[rstest]
#[case::not_found(Lookup::Missing, "not_found")]
#[case::conflict(Lookup::Conflict, "conflict")]
#[case::mismatch(Lookup::Foreign, "mismatch")]
#[case::decode(Lookup::Unreadable, "decode")]
#[tokio::test]
async fn a_failed_lookup_is_counted_with_its_reason(
    #[values(false, true)] of_pool: bool,
    #[case] lookup: Lookup,
    #[case] reason: &str,
) {
    let world = world(Some(CopyPolicy::Reference)).await;
    if let Some(revision) = lookup.revision() {
        world.server.create(REVISIONS, revision);
    }
    assert_eq!(world.failures(KIND, reason), 0);
    if of_pool {
        world.create_pool("web");
        world.server.edit(POOLS, "web", |pool| {
            pool["spec"]["replicas"] = json!(1);
            let spec = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
            spec["preference"] = Value::Null;
            lookup.apply(spec);
        });
    } else {
        world.create_machine("db");
        world.server.edit(MACHINES, "db", |machine| lookup.apply(&mut machine["spec"]));
    }
    world.calm().await;
    assert!(world.failures(KIND, reason) > 0, "{}", world.metrics.page());
    for other in ["not_found", "conflict", "mismatch", "decode"] {
        assert!(other == reason || world.failures(KIND, other) == 0, "{other}");
    }
}

#[tokio::test]
async fn a_preference_that_does_not_exist_is_counted_with_its_kind() {
    let world = world(None).await;
    world.run_pool("web").await;
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] = json!({ "name": "missing" });
    });
    world.calm().await;
    assert!(world.failures("VirtualMachineClusterPreference", "not_found") > 0);
    assert_eq!(world.failures(KIND, "not_found"), 0);
}

/// Replaces a ControllerRevision by the same in a former version of the API, with another name.
fn age(world: &LeaderWorld, name: &str, aged: &str) {
    let mut old = world.server.get(REVISIONS, name).unwrap();
    world.server.delete(REVISIONS, name);
    let metadata = old["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| ["name", "namespace", "labels", "ownerReferences"].contains(&&**field));
    old["metadata"]["name"] = json!(aged);
    old["metadata"]["labels"]["instancetype.kubevirt.io/object-version"] = json!("v1alpha2");
    old["data"]["apiVersion"] = json!("instancetype.kubevirt.io/v1alpha2");
    world.server.create(REVISIONS, old);
}

#[rstest]
#[case::of_a_machine(false)]
#[case::of_a_pool(true)]
#[tokio::test]
async fn an_upgrade_of_a_copy_is_counted_with_its_version(#[case] of_pool: bool) {
    let mut world = world(Some(CopyPolicy::Reference)).await;
    let copy = if of_pool {
        world.run_pool("web").await;
        world.pin_of("web-0")
    } else {
        world.create_machine("db");
        world.calm().await;
        world.copy_of("db").unwrap()
    };
    world.kill_leader().await;
    if of_pool {
        age(&world, &copy, &copy);
    } else {
        age(&world, &copy, "db-old");
        world.server.edit(MACHINES, "db", |machine| {
            machine["status"]["instancetypeRef"]["controllerRevisionRef"]["name"] = json!("db-old");
        });
    }
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(60 * SECOND).await;
    let upgraded = r#"vmpool_instancetype_stash_upgrades_total{from_version="v1alpha2",result="upgraded"}"#;
    assert_eq!(world.value_of(upgraded), Some(1), "{}", world.metrics.page());
}

#[tokio::test]
async fn a_type_whose_deletion_is_blocked_has_a_series_only_meanwhile() {
    let world = world(None).await;
    let blocked = format!(
        r#"vmpool_instancetype_deletion_blocked{{kind="{KIND}",namespace="{NAMESPACE}",name="small"}}"#
    );
    world.create_machine("db");
    world.calm().await;
    assert_eq!(world.value_of(&blocked), None, "it is not being deleted");
    world.delete_small();
    world.advance(10 * SECOND).await;
    assert_eq!(world.value_of(&blocked), Some(1));
    world.server.delete(MACHINES, "db");
    world.advance(10 * SECOND).await;
    assert_eq!((world.small(), world.value_of(&blocked)), (None, None));
}

#[tokio::test]
async fn each_pool_shows_whether_its_copies_are_outdated() {
    let outdated = "vmpool_pool_instancetype_outdated";
    let world = world(None).await;
    world.run_pool("web").await;
    world.run_pool("other").await;
    assert_eq!(world.of_pool(outdated, "web"), Some(0));
    world.server.edit(POOLS, "other", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["instancetype"] = Value::Null;
    });
    world.server.edit(TYPES, "small", |small| small["spec"]["cpu"]["guest"] = json!(8));
    world.calm().await;
    assert_eq!((world.of_pool(outdated, "web"), world.of_pool(outdated, "other")), (Some(1), Some(0)));
    world.refresh_type("web").await;
    assert_eq!(world.of_pool(outdated, "web"), Some(0), "the current revision has a new copy");
    world.server.edit(POOLS, "other", |pool| pool["metadata"]["finalizers"] = json!([]));
    world.server.delete(POOLS, "other");
    world.calm().await;
    assert_eq!(world.of_pool(outdated, "other"), None);
}

#[tokio::test]
async fn restored_copies_are_counted_by_pool() {
    let repairs = "vmpool_pool_pin_repairs_total";
    let world = world(None).await;
    world.run_pool("web").await;
    world.run_pool("other").await;
    for count in [1, 2] {
        assert_eq!(world.of_pool(repairs, "web"), Some(count - 1), "a series exists before the first repair");
        world.server.delete(REVISIONS, &world.pin_of("web-0"));
        world.calm().await;
        assert_eq!((world.of_pool(repairs, "web"), world.of_pool(repairs, "other")), (Some(count), Some(0)));
    }
}
