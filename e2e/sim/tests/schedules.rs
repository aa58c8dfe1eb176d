//! Some schedules of each kind. `make faults` runs as many as you want.

use std::ops::Range;
use std::process::Command;
use std::sync::LazyLock;

use rstest::rstest;
use vmpool_sim::exhaustive::{Story, stories};
use vmpool_sim::schedule::{Schedule, Verdict};
use vmpool_sim::trouble::{Trouble, Unread};

/// A scenario with the fault-free verdicts of its prelude and of all of it.
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
    told.expect("there is a scenario with this name")
}

/// Asserts that the run has no violation.
fn well(name: &str, verdict: Verdict) -> Verdict {
    assert!(verdict.wrong.is_empty(), "{name}: {:?}\n{}", verdict.wrong, verdict.transcript.join("\n"));
    verdict
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || Schedule::random(7).told().transcript;
    assert_eq!(run(), run());
}

#[test]
fn the_same_seed_gives_the_same_transcript_in_another_process() {
    // The schedule must contain a targeted removal, because only those need certificates.
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
fn planned_faults_give_the_same_run_as_the_same_random_faults() {
    let schedules = (0..1000).map(Schedule::random).filter(|schedule| schedule.options.trouble > 50);
    let mut told = schedules.map(|schedule| (schedule.told(), schedule));
    let unlucky = told.find(|(chance, _)| !chance.happened.troubles.is_empty());
    let (chance, mut planned) = unlucky.expect("one of the schedules has a random fault");
    (planned.troubles, planned.unread) = (chance.happened.troubles.clone(), chance.happened.unread.clone());
    (planned.options.trouble, planned.options.unread) = (0, 0);
    assert_eq!(planned.told().transcript, chance.transcript);
}

/// In parts that run in parallel.
#[rstest]
fn random_schedules_break_no_invariant(#[values(0..250, 250..500, 500..750, 750..1000)] seeds: Range<u64>) {
    let mut rivals = 0;
    for seed in seeds {
        let verdict = Schedule::random(seed).run();
        assert!(
            verdict.wrong.is_empty(),
            "make faults SEED={seed} prints the transcript: {:?}",
            verdict.wrong
        );
        rivals += u64::from(verdict.rivals);
    }
    assert!(rivals > 25, "only {rivals} schedules in which a replaced leader resumed");
}

#[rstest]
#[case::a_crash(Trouble::CrashAfter, "is killed")]
#[case::a_replaced_leader(Trouble::StallLate, "resumes")]
fn a_scenario_survives_a_fault_in_its_middle(#[case] trouble: Trouble, #[case] said: &str) {
    for Told { story, before, plain } in &*STORIES {
        // The controller writes nothing if the garbage collector does all the work.
        if plain.writes == before.writes {
            assert_eq!(story.name, "the pool deleted");
            continue;
        }
        let at = usize::midpoint(before.writes, plain.writes);
        let mut schedule = Schedule { troubles: vec![(at, trouble)], ..story.plain() };
        schedule.options.controllers = 2;
        let told = well(story.name, schedule.told()).transcript.join("\n");
        assert!(told.contains(said), "{}: the transcript lacks {said:?}\n{told}", story.name);
    }
}

#[test]
fn a_targeted_removal_removes_only_its_targets() {
    let transcript = by_name().plain.transcript.join("\n");
    assert!(transcript.contains("targeted removal: Removed"), "{transcript}");
    assert!(transcript.contains("/spec/replicas=1"), "{transcript}");
}

/// The client receives no response and repeats the request.
#[test]
fn a_targeted_removal_survives_a_crash_of_the_replica_that_handles_it() {
    let Told { story, before, plain } = by_name();
    for at in before.reads..plain.reads {
        let schedule = Schedule { unread: vec![(at, Unread::Crash)], ..story.plain() };
        let transcript = well(&format!("read {at}"), schedule.told()).transcript.join("\n");
        assert!(
            transcript.contains("targeted removal: Removed"),
            "read {at}: the removal never succeeded\n{transcript}"
        );
    }
}
