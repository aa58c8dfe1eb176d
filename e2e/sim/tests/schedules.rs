//! Some schedules of each sort; `make faults` runs as many as anybody likes.

use std::ops::Range;
use std::process::Command;
use std::sync::LazyLock;

use rstest::rstest;
use vmpool_sim::exhaustive::{Story, stories};
use vmpool_sim::schedule::{Schedule, Verdict};
use vmpool_sim::trouble::{Trouble, Unread};

/// A story, and what comes of its beginning and of all of it if nothing breaks.
struct Told {
    story: Story,
    before: Verdict,
    plain: Verdict,
}

static STORIES: LazyLock<Vec<Told>> = LazyLock::new(|| {
    let tell = |story: Story| {
        let (before, plain) =
            (well(story.name, story.before().run()), well(story.name, story.plain().told()));
        Told { story, before, plain }
    };
    stories().into_iter().map(tell).collect()
});

fn by_name() -> &'static Told {
    let told = STORIES.iter().find(|told| told.story.name == "removal by name");
    told.expect("there is a story of this name")
}

/// What came of a schedule in which nothing may break.
fn well(name: &str, verdict: Verdict) -> Verdict {
    assert!(verdict.wrong.is_empty(), "{name}: {:?}\n{}", verdict.wrong, verdict.transcript.join("\n"));
    verdict
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = || Schedule::random(7).told().transcript;
    assert_eq!(run(), run());
}

#[test]
fn another_process_tells_the_same_of_the_same_seed() {
    // One in which machines are removed by name, for which there are certificates.
    let seed = (0..1000).find(|seed| Schedule::random(*seed).options.apiservers > 0).unwrap();
    let run = || {
        let output = Command::new(env!("CARGO_BIN_EXE_faults")).env("SEED", seed.to_string()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let told = run();
    assert!(told.contains("requestheader-client-ca-file"), "{told}");
    assert_eq!(run(), told);
}

#[test]
fn troubles_that_are_planned_are_the_run_in_which_they_came_by_chance() {
    let schedules = (0..1000).map(Schedule::random).filter(|schedule| schedule.options.trouble > 50);
    let mut told = schedules.map(|schedule| (schedule.told(), schedule));
    let unlucky = told.find(|(chance, _)| !chance.happened.troubles.is_empty());
    let (chance, mut planned) = unlucky.expect("something goes wrong by chance");
    (planned.troubles, planned.unread) = (chance.happened.troubles.clone(), chance.happened.unread.clone());
    (planned.options.trouble, planned.options.unread) = (0, 0);
    assert_eq!(planned.told().transcript, chance.transcript);
}

/// In parts that run side by side.
#[rstest]
fn whatever_happens_nothing_is_broken(#[values(0..250, 250..500, 500..750, 750..1000)] seeds: Range<u64>) {
    let mut rivals = 0;
    for seed in seeds {
        let verdict = Schedule::random(seed).run();
        assert!(verdict.wrong.is_empty(), "make faults SEED={seed} tells more: {:?}", verdict.wrong);
        rivals += u64::from(verdict.rivals);
    }
    assert!(rivals > 25, "{rivals} times a leader was replaced and went on");
}

#[rstest]
#[case::a_death(Trouble::CrashAfter, "dies")]
#[case::a_leader_that_is_replaced(Trouble::StallLate, "goes on")]
fn a_story_survives_its_worst_moment(#[case] trouble: Trouble, #[case] said: &str) {
    for Told { story, before, plain } in &*STORIES {
        // Nobody has anything to do where the garbage collector does it all.
        if plain.writes == before.writes {
            assert_eq!(story.name, "the pool deleted");
            continue;
        }
        let at = usize::midpoint(before.writes, plain.writes);
        let mut schedule = Schedule { troubles: vec![(at, trouble)], ..story.plain() };
        schedule.options.controllers = 2;
        let told = well(story.name, schedule.told()).transcript.join("\n");
        assert!(told.contains(said), "{}: nobody {said}\n{told}", story.name);
    }
}

#[test]
fn machines_leave_by_name_and_nobody_else_does() {
    let transcript = by_name().plain.transcript.join("\n");
    assert!(transcript.contains("removal by name: Removed"), "{transcript}");
    assert!(transcript.contains("/spec/replicas=1"), "{transcript}");
}

/// Whoever asked hears nothing, and asks again.
#[test]
fn a_removal_by_name_survives_the_death_of_whoever_does_it() {
    let Told { story, before, plain } = by_name();
    for at in before.reads..plain.reads {
        let schedule = Schedule { unread: vec![(at, Unread::Crash)], ..story.plain() };
        let transcript = well(&format!("read {at}"), schedule.told()).transcript.join("\n");
        assert!(
            transcript.contains("removal by name: Removed"),
            "read {at}: it was never done\n{transcript}"
        );
    }
}
