//! The bounds of what a process remembers of waiting claims.

use std::sync::Weak;

use futures::channel::oneshot;
use vmpool_platforms::removal::APIS;

use super::super::model::ClaimRequest;
use super::*;
use crate::testing::{ApiServerWorld, FaultyServerStore, NAMESPACE};

const AUTOSCALERS: &str = "poolautoscalers.vmpool.dev";
const DVP: &str = "virtualization.deckhouse.io";
const KUBEVIRT: &str = "pool.kubevirt.io";

fn recorder(world: &ApiServerWorld) -> Arc<WaitingRecorder> {
    let cluster = ClusterClient::new(world.server.client(), world.env.clone(), Duration::from_secs(12));
    WaitingRecorder::new(cluster, world.env.clone())
}

fn pool_name(group: &str, namespace: &str, name: &str) -> PoolName {
    let mut stored = APIS.removal.iter().map(|api| api.stored);
    let stored = stored.find(|stored| stored.pools.group == group).expect("a platform has this group");
    PoolName { stored, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Creates the pool, and an autoscaler that names it.
fn create_autoscaled(world: &ApiServerWorld, pool: &PoolName) {
    let PoolName { stored, namespace, name } = pool;
    let (group, version) = (stored.pools.group, stored.pools.version);
    let metadata = json!({ "name": name, "namespace": namespace });
    world.server.store(|store| {
        let pool = json!({ "metadata": metadata, "spec": { "replicas": 0 } });
        store.model().create_now(&format!("virtualmachinepools.{group}"), pool).unwrap();
    });
    let reference = json!({
        "apiVersion": format!("{group}/{version}"), "kind": "VirtualMachinePool", "name": name,
    });
    let autoscaler = json!({
        "metadata": { "name": format!("{name}.{group}"), "namespace": namespace },
        "spec": { "poolRef": reference, "maxReplicas": 3 },
    });
    world.server.store(|store| store.model().create_now(AUTOSCALERS, autoscaler).unwrap());
}

/// A world with the DVP pool `web`, which is autoscaled.
fn autoscaled_web() -> (ApiServerWorld, PoolName) {
    let (world, web) = (ApiServerWorld::new(1), pool_name(DVP, NAMESPACE, "web"));
    create_autoscaled(&world, &web);
    (world, web)
}

fn job(user: &str, id: &str) -> ClaimJob {
    let request = ClaimRequest {
        id: id.to_owned(),
        duration: Duration::from_mins(10),
        reason: None,
        wait: Duration::ZERO,
        machine: None,
        renew: false,
        dry_run: false,
    };
    let (reply, _) = oneshot::channel();
    let (wait_until, deadline) = (Duration::ZERO, Duration::MAX);
    ClaimJob { user: user.to_owned(), request, wait_until, deadline, caller: Weak::new(), reply }
}

async fn pass_seconds(world: &ApiServerWorld, seconds: u64) {
    world.through(world.env.sleep(Duration::from_secs(seconds))).await;
}

/// What the recorder remembers of a pool: the number of pending claims, and of written ones.
fn remembered(recorder: &WaitingRecorder, pool: &PoolName) -> Option<(usize, usize)> {
    let state = recorder.state.lock();
    state.pools.get(&pool_id(pool)).map(|known| (known.pending.len(), known.written.len()))
}

/// The number of waiting claims in the annotation of the pool.
fn annotated(world: &ApiServerWorld, pool: &PoolName) -> u32 {
    let resource = format!("virtualmachinepools.{}", pool.stored.pools.group);
    let object = world.server.store(|store| store.model().get(&resource, &pool.namespace, &pool.name));
    let object = object.expect("the pool exists");
    let text = object["metadata"]["annotations"][WAITING_CLAIMS].as_str().unwrap_or_default();
    WaitingClaims::parse(text, world.env.now().as_second()).count(&BTreeSet::new())
}

#[test]
fn pending_claims_are_bounded_for_the_pool_and_for_each_user() {
    let mut known = RecordedPool::default();
    let key = |user: usize, id: usize| WaitingClaimKey::new(&format!("user-{user}"), &format!("job-{id}"));
    let added = (0..1000).filter(|id| known.add_pending(key(0, *id))).count();
    assert_eq!((added, known.pending.len()), (MOST_ENTRIES_OF_A_USER, MOST_ENTRIES_OF_A_USER));
    let added = (1..=1000).filter(|user| known.add_pending(key(*user, 0))).count();
    assert_eq!(added, MOST_ENTRIES - MOST_ENTRIES_OF_A_USER);
    assert!(known.add_pending(key(1, 0)), "the write has it already");
    assert!(!known.add_pending(key(1, 1)), "the pool has too many");
    assert_eq!(known.pending.len(), MOST_ENTRIES);
}

#[tokio::test]
async fn huge_numbers_of_claims_keep_the_memory_of_a_pool_bounded() {
    let (world, web) = autoscaled_web();
    let recorder = recorder(&world);
    // Longer than an entry lasts, with new ids in each second.
    for second in 0..40 {
        for number in 0..2000 {
            recorder.note(&web, &job(&format!("user-{}", number % 100), &format!("job-{second}-{number}")));
        }
        let (pending, written) = remembered(&recorder, &web).expect("the pool has claims");
        assert!(pending <= MOST_ENTRIES && written <= MOST_ENTRIES, "{pending} pending, {written} written");
        pass_seconds(&world, 1).await;
    }
    assert!(annotated(&world, &web) > 0);
}

#[tokio::test]
async fn a_claim_is_written_again_when_half_of_its_time_is_over_and_forgotten_after_it() {
    let (world, web) = autoscaled_web();
    let recorder = recorder(&world);
    let note = || recorder.note(&web, &job("alice", "job-1"));
    note();
    pass_seconds(&world, 3).await;
    assert_eq!((remembered(&recorder, &web), annotated(&world, &web)), (Some((0, 1)), 1));
    note();
    assert_eq!(remembered(&recorder, &web), Some((0, 1)), "its entry is fresh");
    pass_seconds(&world, 14).await;
    note();
    assert_eq!(remembered(&recorder, &web), Some((1, 1)), "half of the time is over");
    pass_seconds(&world, 31).await;
    assert_eq!(annotated(&world, &web), 0);
    // The memory is tidied after each write.
    let other = pool_name(DVP, NAMESPACE, "other");
    recorder.note(&other, &job("alice", "job-1"));
    pass_seconds(&world, 1).await;
    assert_eq!(remembered(&recorder, &web), None);
}

#[tokio::test]
async fn pools_of_one_name_are_remembered_by_namespace_and_group() {
    let (world, web) = autoscaled_web();
    let (elsewhere, of_kubevirt) = (pool_name(DVP, "team-b", "web"), pool_name(KUBEVIRT, NAMESPACE, "web"));
    create_autoscaled(&world, &elsewhere);
    create_autoscaled(&world, &of_kubevirt);
    let recorder = recorder(&world);
    for (pool, claims) in [(&web, 1), (&elsewhere, 2), (&of_kubevirt, 3)] {
        for number in 0..claims {
            recorder.note(pool, &job("alice", &format!("job-{number}")));
        }
    }
    pass_seconds(&world, 5).await;
    for (pool, claims) in [(&web, 1), (&elsewhere, 2), (&of_kubevirt, 3)] {
        let expected = (Some((0, usize::try_from(claims).unwrap())), claims);
        assert_eq!((remembered(&recorder, pool), annotated(&world, pool)), expected, "{}", pool.namespace);
    }
}

#[tokio::test]
async fn nothing_is_remembered_of_many_pools_without_autoscalers() {
    let (world, web) = autoscaled_web();
    let recorder = recorder(&world);
    for number in 0..500 {
        let pool = pool_name(DVP, &format!("team-{}", number % 50), &format!("pool-{number}"));
        recorder.note(&pool, &job("alice", "job-1"));
    }
    pass_seconds(&world, 12).await;
    recorder.note(&web, &job("alice", "job-1"));
    pass_seconds(&world, 1).await;
    let state = recorder.state.lock();
    assert_eq!((state.pools.len(), state.autoscaled.len()), (1, 1));
    assert!(state.pools.contains_key(&pool_id(&web)) && state.autoscaled.contains_key(NAMESPACE));
}

#[tokio::test]
async fn claims_that_cannot_be_written_are_not_kept() {
    let (world, web) = autoscaled_web();
    world.server.store(FaultyServerStore::delete_pool);
    let recorder = recorder(&world);
    recorder.note(&web, &job("alice", "job-1"));
    pass_seconds(&world, 1).await;
    assert_eq!(remembered(&recorder, &web), Some((0, 0)), "it waits for the next attempt of the claim");
}
