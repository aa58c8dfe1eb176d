//! Follows the objects of the cluster, with one watch for each kind.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::core::WatchEvent;
use tokio::sync::watch;
use vmpool_platforms::{ApiObject, InstanceOf, Instances as _, Platform, PlatformName, with_platform};

use super::objects::{WatchedKind, WatchedObjects};
use crate::cluster::UserClusterClient;
use crate::connection::selected_platforms;
use crate::explain::explain_request_error;
use crate::resources::{ResourceSelection, named_resource};

/// Time before the next list after a watch has ended.
const PAUSE: Duration = Duration::from_secs(1);

/// Time before the next list if the user may not list or watch, or the cluster does not respond.
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// Time before the next list if the cluster does not serve the kind.
const UNSERVED_PAUSE: Duration = Duration::from_mins(1);

/// A kind to watch.
#[derive(Clone, Debug)]
pub(super) struct FollowedKind {
    kind: WatchedKind,
    selection: ResourceSelection,
}

/// The kinds to watch in a namespace, or in all: those of one platform, or of all.
pub(super) fn followed_kinds(platform: Option<PlatformName>, namespace: Option<&str>) -> Vec<FollowedKind> {
    let (mut kinds, mut pool_kinds) = (Vec::new(), BTreeSet::new());
    for name in selected_platforms(platform) {
        with_platform!(name, P => add_followed_platform::<P>(name, namespace, &mut kinds));
        pool_kinds.insert(with_platform!(name, P => pool_kind::<P>()));
    }
    let mut events = ResourceSelection::all(named_resource("", "v1", "Event", "events"), namespace);
    events.fields = event_fields(&pool_kinds.iter().map(String::as_str).collect::<Vec<_>>());
    kinds.push(FollowedKind { kind: WatchedKind::Events, selection: events });
    kinds
}

/// The field selector of events about pools of these kinds; `None` if there are several, because a selector
/// cannot contain two values. Then all events are followed, and each pool shows its own.
fn event_fields(pool_kinds: &[&str]) -> Option<String> {
    let [kind] = pool_kinds else { return None };
    Some(format!("involvedObject.kind={kind}"))
}

fn add_followed_platform<P: Platform>(
    name: PlatformName,
    namespace: Option<&str>,
    kinds: &mut Vec<FollowedKind>,
) {
    kinds.push(followed_type::<P::Pool>(WatchedKind::Pools(name), namespace));
    kinds.push(followed_type::<P::Machine>(WatchedKind::Machines(name), namespace));
    if P::Instances::EXIST {
        kinds.push(followed_type::<InstanceOf<P>>(WatchedKind::Instances(name), namespace));
    }
}

fn followed_type<K: ApiObject>(kind: WatchedKind, namespace: Option<&str>) -> FollowedKind {
    FollowedKind { kind, selection: ResourceSelection::of_type::<K>(namespace) }
}

fn pool_kind<P: Platform>() -> String {
    <P::Pool as kube::Resource>::kind(&()).into_owned()
}

/// Keeps the objects of a kind current, until the future is dropped. What the user may not read is a problem
/// of that kind only.
pub(super) async fn follow_kind(
    cluster: &UserClusterClient,
    followed: &FollowedKind,
    objects: &watch::Sender<WatchedObjects>,
) {
    loop {
        let pause = match list_and_watch(cluster, followed, objects).await {
            Ok(pause) => pause,
            Err(error) => {
                let text = format!("{error:#}");
                let problem = text.lines().next().map(str::to_owned);
                objects.send_modify(|objects| objects.set_problem(followed.kind, problem));
                LONG_PAUSE
            }
        };
        cluster.env.sleep(pause).await;
    }
}

/// Lists the objects, and then follows their changes until the watch ends. Returns when to list again.
///
/// # Errors
/// The list or the start of the watch failed. Without the right to watch, the listed objects are shown.
async fn list_and_watch(
    cluster: &UserClusterClient,
    followed: &FollowedKind,
    objects: &watch::Sender<WatchedObjects>,
) -> Result<Duration> {
    let FollowedKind { kind, selection } = followed;
    let Some(listed) = selection.list(cluster).await? else {
        objects.send_modify(|objects| objects.replace(*kind, Vec::new()));
        return Ok(UNSERVED_PAUSE);
    };
    objects.send_modify(|objects| objects.replace(*kind, listed.objects));
    let changes = selection.api(cluster).watch(&selection.watch_params(), &listed.version).await;
    let changes = changes.map_err(|error| explain_request_error(&selection.attempt("watch"), &error))?;
    objects.send_modify(|objects| objects.set_problem(*kind, None));
    let mut changes = changes.boxed();
    // A watch ends at any time, and the next list then shows what it has missed.
    while let Ok(Some(change)) = changes.try_next().await {
        match change {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let object = selection.object(&object)?;
                objects.send_modify(|objects| objects.insert(*kind, object));
            }
            WatchEvent::Deleted(object) => {
                let object = selection.object(&object)?;
                objects.send_modify(|objects| objects.remove(*kind, &object));
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return Ok(PAUSE),
        }
    }
    Ok(PAUSE)
}

#[cfg(test)]
mod tests;
