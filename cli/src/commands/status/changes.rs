//! Changes of a pool and of the objects around it, as watches of the API server report them.

use std::time::Duration;

use futures::future::ready;
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{FutureExt as _, StreamExt as _};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use vmpool_platforms::{
    ApiObject, ClientPlatform, DiskOf, Disks, InstanceOf, Instances, MachineStorage, VolumeOf,
};
use vmpool_runtime::Env;

use crate::cluster::UserClusterClient;

/// The longest time between two reads while all watches work: ages, the lease and events change without a
/// change of a watched object.
const REFRESH: Duration = Duration::from_secs(10);

/// The longest time between two reads if the API server refuses a watch, for example because the user may
/// list objects and not watch them.
const POLL: Duration = Duration::from_secs(2);

/// Changes come in groups, and one read shows all of a group.
const GROUP: Duration = Duration::from_millis(300);

/// What a watch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchNotice {
    /// An object changed, or the watch has begun.
    Changed,
    /// The watch has failed. It is tried again.
    Failed,
}

/// The watches of a pool and of the objects of its namespace.
pub(super) struct PoolChanges {
    notices: SelectAll<BoxStream<'static, WatchNotice>>,
    /// Whether a watch has failed since the beginning.
    is_incomplete: bool,
}

impl PoolChanges {
    /// Begins to watch the pool with this name, and the machines, instances, disks and volumes of its
    /// namespace.
    pub(super) fn begin<P: ClientPlatform>(cluster: &UserClusterClient, pool: &str) -> Self {
        let of_pool = Config::default().fields(&format!("metadata.name={pool}"));
        let mut watches = vec![
            watch_objects::<P::Pool>(cluster, of_pool),
            watch_objects::<P::Machine>(cluster, Config::default()),
        ];
        if P::Instances::EXIST {
            watches.push(watch_objects::<InstanceOf<P>>(cluster, Config::default()));
        }
        if P::Disks::EXIST {
            watches.push(watch_objects::<DiskOf<P>>(cluster, Config::default()));
        }
        if P::Storage::EXIST {
            watches.push(watch_objects::<VolumeOf<P>>(cluster, Config::default()));
        }
        Self { notices: select_all(watches), is_incomplete: false }
    }

    /// Waits until something may have changed, at the latest [`REFRESH`] or [`POLL`].
    pub(super) async fn wait(&mut self, env: &Env) {
        let limit = if self.is_incomplete { POLL } else { REFRESH };
        if let Ok(Some(notice)) = env.timeout(limit, self.notices.next()).await {
            self.note(notice);
            env.sleep(GROUP).await;
            while let Some(Some(notice)) = self.notices.next().now_or_never() {
                self.note(notice);
            }
        }
    }

    fn note(&mut self, notice: WatchNotice) {
        self.is_incomplete |= notice == WatchNotice::Failed;
    }
}

fn watch_objects<K: ApiObject>(
    cluster: &UserClusterClient,
    config: Config,
) -> BoxStream<'static, WatchNotice> {
    let events = watcher(cluster.api::<K>(), config).default_backoff();
    events.filter_map(|event| ready(notice_of_event(&event))).boxed()
}

/// What an event means for the status. The objects of a list are read with the list.
fn notice_of_event<T, E>(event: &Result<Event<T>, E>) -> Option<WatchNotice> {
    match event {
        Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => Some(WatchNotice::Changed),
        Ok(Event::Init | Event::InitApply(_)) => None,
        Err(_) => Some(WatchNotice::Failed),
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[test]
    fn changes_and_failures_are_noticed_and_the_objects_of_a_list_are_not() {
        let notice = |event: Event<u8>| notice_of_event::<u8, ()>(&Ok(event));
        assert_eq!(notice(Event::Apply(1)), Some(WatchNotice::Changed));
        assert_eq!(notice(Event::Delete(1)), Some(WatchNotice::Changed));
        assert_eq!(notice(Event::InitDone), Some(WatchNotice::Changed));
        assert_eq!(notice(Event::Init), None);
        assert_eq!(notice(Event::InitApply(1)), None);
        assert_eq!(notice_of_event::<u8, ()>(&Err(())), Some(WatchNotice::Failed));
    }

    #[tokio::test]
    async fn a_group_of_changes_is_one_change_and_a_failed_watch_shortens_the_wait() {
        let notices = stream::iter([WatchNotice::Changed, WatchNotice::Changed, WatchNotice::Failed]);
        let mut changes = PoolChanges {
            notices: select_all([notices.chain(stream::pending()).boxed()]),
            is_incomplete: false,
        };
        changes.wait(&Env::system()).await;
        assert!(changes.is_incomplete);
        assert_eq!(changes.notices.next().now_or_never(), None);
    }
}
