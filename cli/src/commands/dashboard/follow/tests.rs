use serde_json::{Value, json};

use super::*;
use crate::testing::{FakeAnswer, answering_cluster};

fn kinds(platform: Option<PlatformName>) -> Vec<WatchedKind> {
    followed_kinds(platform, Some("team-a")).iter().map(|followed| followed.kind).collect()
}

#[test]
fn each_kind_has_one_watch() {
    use PlatformName::{Dvp, Kubevirt};
    use WatchedKind::{Events, Instances, Machines, Pools};
    assert_eq!(
        kinds(None),
        [Pools(Dvp), Machines(Dvp), Pools(Kubevirt), Machines(Kubevirt), Instances(Kubevirt), Events]
    );
    assert_eq!(kinds(Some(Dvp)), [Pools(Dvp), Machines(Dvp), Events]);
    assert_eq!(kinds(Some(Kubevirt)), [Pools(Kubevirt), Machines(Kubevirt), Instances(Kubevirt), Events]);
}

fn pool(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
        "metadata": { "namespace": "team-a", "name": name, "resourceVersion": "6" },
        "spec": { "replicas": replicas },
    })
}

/// Follows DVP pools until the watch ends.
async fn follow_pools(
    answer: impl Fn(&str) -> FakeAnswer + Send + Sync + 'static,
) -> (Result<Duration>, WatchedObjects) {
    let followed = &followed_kinds(Some(PlatformName::Dvp), Some("team-a"))[0];
    let (objects, watched) = watch::channel(WatchedObjects::default());
    let pause = list_and_watch(&answering_cluster(answer), followed, &objects).await;
    let objects = watched.borrow().clone();
    (pause, objects)
}

fn names(objects: &WatchedObjects) -> Vec<&str> {
    objects.of(WatchedKind::Pools(PlatformName::Dvp)).map(crate::cluster::name_of).collect()
}

#[tokio::test]
async fn a_list_and_the_changes_of_its_watch_are_the_objects() {
    let (pause, objects) = follow_pools(|target| {
        if !target.contains("watch=true") {
            return FakeAnswer::list(&[pool("a", 1), pool("b", 1)]);
        }
        assert!(target.contains("resourceVersion=5"), "{target}");
        let changes = [("MODIFIED", pool("a", 2)), ("DELETED", pool("b", 1)), ("ADDED", pool("c", 1))];
        let lines =
            changes.map(|(kind, object)| json!({ "type": kind, "object": object }).to_string() + "\n");
        FakeAnswer { code: 200, body: lines.concat() }
    })
    .await;
    assert_eq!(pause.unwrap(), PAUSE);
    assert_eq!(names(&objects), ["a", "c"]);
    assert_eq!(objects.of(WatchedKind::Pools(PlatformName::Dvp)).next().unwrap()["spec"]["replicas"], 2);
}

#[tokio::test]
async fn without_the_right_to_watch_the_list_is_shown() {
    let (pause, objects) = follow_pools(|target| {
        if target.contains("watch=true") {
            return FakeAnswer::failure(403, "forbidden", &json!({ "kind": "virtualmachinepools" }));
        }
        FakeAnswer::list(&[pool("a", 1)])
    })
    .await;
    let error = pause.unwrap_err().to_string();
    assert!(error.starts_with("you may not watch virtualmachinepools."), "{error}");
    assert_eq!(names(&objects), ["a"]);
}

#[tokio::test]
async fn a_kind_that_the_cluster_does_not_serve_is_no_problem() {
    let (pause, objects) = follow_pools(|_| FakeAnswer::failure(404, "not found", &Value::Null)).await;
    assert_eq!(pause.unwrap(), UNSERVED_PAUSE);
    assert_eq!(objects.problems().count(), 0);
}

#[test]
fn events_are_selected_by_the_kind_of_pools_if_all_pools_have_one() {
    let of_all = followed_kinds(None, None).pop().unwrap();
    assert_eq!(of_all.selection.fields.as_deref(), Some("involvedObject.kind=VirtualMachinePool"));
    assert_eq!(event_fields(&["Pool", "VirtualMachinePool"]), None);
}
