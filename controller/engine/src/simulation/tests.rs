use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::step::Step;
use super::world::World;
use crate::model::Naming;

/// Runs a story to its settled end; the transcript is the failure's explanation.
fn run(
    naming: Naming,
    desired: usize,
    opened: u64,
    steps: impl IntoIterator<Item = Step>,
) -> Result<World, String> {
    let mut world = World::new(naming, desired, opened);
    let end = steps.into_iter().try_for_each(|step| world.step(step)).and_then(|()| world.settle());
    match end {
        Ok(()) => Ok(world),
        Err(broken) => Err(format!("{broken}\n{}", world.transcript)),
    }
}

/// More stories than there are cases of other laws: most of them are dull. `PROPTEST_CASES` scales both.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: 4 * usual.cases, max_shrink_iters: 20_000, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_invariants_hold_and_the_world_settles(
        naming in prop::sample::select(&[Naming::Scattered, Naming::Ordinal][..]),
        desired in 0usize..9,
        opened in 0u64..12,
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        run(naming, desired, opened, numbers.into_iter().map(Step::from_number)).map_err(TestCaseError::fail)?;
    }
}

/// The numbers of a run that never changes; SplitMix64.
fn seeded(mut seed: u64) -> impl Iterator<Item = u32> {
    std::iter::repeat_with(move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = seed;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((x ^ (x >> 31)) >> 32).expect("32 bits are left")
    })
}

#[test]
fn one_seeded_story_reads_like_this() {
    let world = run(Naming::Scattered, 5, 6, seeded(20).take(120).map(Step::from_number)).unwrap();
    insta::assert_snapshot!(world.transcript);
}
