use jiff::Timestamp;
use vmpool_api::ObjectId;

use super::{AutoscalerIdentity, Conflict, HpaTarget, find_conflict};
use crate::limits::AutoscaledPool;

fn pool(name: &str) -> AutoscaledPool {
    let (group, kind) = ("pool.kubevirt.io".to_owned(), "VirtualMachinePool".to_owned());
    AutoscaledPool { group, kind, name: name.to_owned() }
}

fn autoscaler(name: &str, created: i64, of: &str) -> AutoscalerIdentity {
    let created = Some(Timestamp::from_second(created).unwrap());
    AutoscalerIdentity { id: ObjectId::new(name, name), created, pool: pool(of) }
}

#[test]
fn the_oldest_autoscaler_of_a_pool_has_no_conflict() {
    let all =
        [autoscaler("b", 1, "p"), autoscaler("c", 2, "p"), autoscaler("a", 2, "p"), autoscaler("d", 0, "q")];
    assert_eq!(find_conflict(&all[0], &all, &[]), None);
    for later in &all[1..3] {
        let conflict = find_conflict(later, &all, &[]);
        assert_eq!(conflict, Some(Conflict::OlderAutoscaler("b".to_owned())));
    }
}

#[test]
fn of_two_autoscalers_exactly_one_scales() {
    let (a, b) = (autoscaler("a", 1, "p"), autoscaler("b", 1, "p"));
    let all = [a.clone(), b.clone()];
    let free = [&a, &b].into_iter().filter(|own| find_conflict(own, &all, &[]).is_none()).count();
    assert_eq!(free, 1);
}

#[test]
fn an_hpa_of_the_pool_is_a_conflict_in_any_version() {
    let own = autoscaler("a", 1, "p");
    let hpa = |of: &str| HpaTarget { name: "hpa".to_owned(), target: pool(of) };
    let conflict = find_conflict(&own, &[], &[hpa("q"), hpa("p")]);
    assert_eq!(conflict, Some(Conflict::HorizontalPodAutoscaler("hpa".to_owned())));
    assert_eq!(find_conflict(&own, &[], &[hpa("q")]), None);
    let mut other_group = hpa("p");
    other_group.target.group = "apps".to_owned();
    assert_eq!(find_conflict(&own, &[], &[other_group]), None);
}
