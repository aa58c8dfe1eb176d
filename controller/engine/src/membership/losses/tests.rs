use rstest::rstest;

use super::*;

const NOW: Duration = Duration::from_secs(1000);

fn id(name: &str) -> ObjectId {
    ObjectId::new(name, name)
}

fn loss(kind: LossKind) -> Loss {
    Loss { kind, message: "odd".into() }
}

fn stopped(kind: LossKind, times: usize) -> Losses {
    let mut losses = Losses::default();
    (0..times).for_each(|_| losses.lost(loss(kind), NOW));
    losses
}

#[rstest]
#[case::two_at_birth(LossKind::AtBirth, 2, 9, Allowance::Unlimited)]
#[case::three_at_birth(LossKind::AtBirth, 3, 9, Allowance::Stopped(REHEARSAL))]
#[case::fewer_than_desired_later(LossKind::Later, 8, 9, Allowance::Unlimited)]
#[case::as_many_as_desired_later(LossKind::Later, 9, 9, Allowance::Stopped(RETRY))]
#[case::a_small_pool(LossKind::Later, 2, 1, Allowance::Unlimited)]
fn a_number_of_losses_in_a_row_stops_the_pool(
    #[case] kind: LossKind,
    #[case] times: usize,
    #[case] desired: usize,
    #[case] expected: Allowance,
) {
    assert_eq!(stopped(kind, times).allowance(desired, NOW), expected);
}

#[test]
fn a_pool_that_loses_machines_at_birth_rehearses_each_minute_and_may_create_after_ten() {
    let mut losses = stopped(LossKind::AtBirth, 3);
    let mut now = NOW;
    for _ in 0..9 {
        now += REHEARSAL;
        assert_eq!(losses.allowance(3, now), Allowance::Trial(Rehearsal::Required));
        losses.rehearsal_lost("odd".into(), now);
        assert_eq!(losses.allowance(3, now), Allowance::Stopped(REHEARSAL));
    }
    // A server without dry runs must not stop the pool for ever.
    now += REHEARSAL;
    assert_eq!(losses.allowance(3, now), Allowance::Trial(Rehearsal::IfSupported));
    losses.lost(loss(LossKind::AtBirth), now);
    assert_eq!(losses.allowance(3, now), Allowance::Stopped(REHEARSAL));
    losses.created(&id("a"), 3, now);
    assert_eq!(losses.allowance(3, now), Allowance::Unlimited);
}

#[test]
fn a_pool_that_loses_machines_later_tries_one_after_ten_minutes_and_goes_on_if_it_stays() {
    let mut losses = stopped(LossKind::Later, 3);
    let later = NOW + RETRY;
    assert_eq!(losses.allowance(3, later), Allowance::Trial(Rehearsal::IfSupported));
    losses.created(&id("a"), 3, later);
    assert_eq!(losses.allowance(3, later), Allowance::Stopped(TRIAL_KEPT));
    assert_eq!(
        losses.observe(|_, _| CreatedObjectState::Kept, (later + TRIAL_KEPT).saturating_sub(SOON)),
        []
    );
    assert!(losses.is_stopped(3));
    assert_eq!(losses.observe(|_, _| CreatedObjectState::Kept, later + TRIAL_KEPT), []);
    assert_eq!(losses.allowance(3, later + TRIAL_KEPT), Allowance::Unlimited);
}

#[test]
fn a_trial_that_is_taken_away_stops_the_pool_again_and_one_that_is_deleted_is_repeated() {
    let mut losses = stopped(LossKind::Later, 3);
    let later = NOW + RETRY;
    losses.created(&id("a"), 3, later);
    assert_eq!(losses.observe(|_, _| CreatedObjectState::Gone, later), []);
    assert_eq!(losses.allowance(3, later), Allowance::Trial(Rehearsal::IfSupported));
    losses.created(&id("b"), 3, later);
    assert_eq!(losses.observe(|_, _| CreatedObjectState::Lost, later), [id("b")]);
    losses.lost(loss(LossKind::Later), later);
    assert_eq!(losses.allowance(3, later), Allowance::Stopped(RETRY));
}

#[test]
fn a_change_of_the_spec_permits_one_trial() {
    for kind in [LossKind::AtBirth, LossKind::Later] {
        let mut losses = stopped(kind, 3);
        losses.retry();
        assert_eq!(losses.allowance(3, NOW), Allowance::Trial(Rehearsal::IfSupported));
        losses.rehearsal_lost("odd".into(), NOW);
        assert_eq!(losses.allowance(3, NOW), Allowance::Stopped(REHEARSAL));
    }
}

#[test]
fn a_machine_that_stays_for_ten_minutes_ends_the_row() {
    let mut losses = stopped(LossKind::Later, 2);
    losses.created(&id("a"), 3, NOW);
    losses.created(&id("b"), 3, NOW);
    assert_eq!(
        losses.observe(
            |name, _| if &**name == "a" { CreatedObjectState::Kept } else { CreatedObjectState::Unknown },
            NOW
        ),
        []
    );
    losses.lost(loss(LossKind::Later), NOW);
    assert!(losses.is_stopped(3));
    assert_eq!(losses.observe(|_, _| CreatedObjectState::Kept, NOW + KEPT), []);
    assert!(!losses.is_stopped(3));
}

#[test]
fn an_object_of_a_lost_response_is_watched_and_proves_nothing() {
    let mut losses = stopped(LossKind::AtBirth, 3);
    losses.watch(&id("a"), NOW);
    assert!(losses.is_stopped(3));
    assert_eq!(losses.observe(|_, _| CreatedObjectState::Lost, NOW), [id("a")]);
    assert_eq!(losses.observe(|_, _| CreatedObjectState::Lost, NOW), [], "it is reported once");
}

#[test]
fn a_new_leader_continues_where_the_former_one_stopped() {
    let mut losses = Losses::default();
    losses.restore(true, 9, "odd", NOW);
    assert_eq!(losses.allowance(9, NOW), Allowance::Stopped(RETRY));
    let mut losses = Losses::default();
    losses.restore(false, 9, "odd", NOW);
    assert_eq!(losses.allowance(9, NOW), Allowance::Unlimited);
    losses.lost(loss(LossKind::AtBirth), NOW);
    assert_eq!(losses.allowance(9, NOW), Allowance::Stopped(REHEARSAL));
}

/// A list replaces the cache without showing the deletion of the one object that a stopped pool tried again
/// with.
#[test]
fn a_trial_whose_fate_stays_unknown_ends() {
    let mut losses = stopped(LossKind::Later, 3);
    losses.created(&id("a"), 1, NOW);
    let later = NOW + TRIAL_KEPT;
    assert_eq!(losses.observe(|_, _| CreatedObjectState::Unknown, later), []);
    assert_eq!(losses.allowance(1, later), Allowance::Stopped(RETRY.saturating_sub(TRIAL_KEPT)));
    assert_eq!(losses.allowance(1, NOW + RETRY), Allowance::Trial(Rehearsal::IfSupported));
}
