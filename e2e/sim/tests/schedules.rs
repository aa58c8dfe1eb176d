//! A few schedules of each sort; `make faults` runs as many as anybody likes.

use vmpool_sim::exhaustive::stories;
use vmpool_sim::referee::Trouble;
use vmpool_sim::schedule::Schedule;

/// How many random schedules.
const SEEDS: u64 = 12;

#[test]
fn the_same_seed_is_the_same_run() {
    let run = || Schedule::random(7).run().transcript;
    assert_eq!(run(), run());
}

#[test]
fn whatever_happens_nothing_is_broken() {
    for seed in 0..SEEDS {
        let verdict = Schedule::random(seed).run();
        assert!(
            verdict.wrong.is_empty(),
            "seed {seed}: {:?}\n{}",
            verdict.wrong,
            verdict.transcript.join("\n")
        );
    }
}

#[test]
fn a_story_survives_a_death_after_its_first_write() {
    for story in stories() {
        let plain = story.plain().run();
        assert!(plain.wrong.is_empty(), "{}: {:?}", story.name, plain.wrong);
        assert!(plain.writes > 0, "{} has nothing to disturb", story.name);
        let schedule = Schedule { troubles: vec![(plain.writes / 2, Trouble::CrashAfter)], ..story.plain() };
        let disturbed = schedule.run();
        let told = disturbed.transcript.join("\n");
        assert!(disturbed.wrong.is_empty(), "{}: {:?}\n{told}", story.name, disturbed.wrong);
        assert!(told.contains("dies"), "{}: nobody died\n{told}", story.name);
    }
}
