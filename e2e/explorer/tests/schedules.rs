//! Some schedules of each kind. `make faults` runs as many as you want.

use std::ops::Range;
use std::process::Command;
use std::sync::LazyLock;

use rstest::rstest;
use serde_json::Value;
use vmpool_explorer::exhaustive::{FaultScenario, all_scenarios};
use vmpool_explorer::fault::{ReadFault, WriteFault};
use vmpool_explorer::operation::ScheduleOperation;
use vmpool_explorer::operation_recycling::RecyclingOperation;
use vmpool_explorer::schedule::{Schedule, ScheduleResult};
use vmpool_explorer::world::SimulatedWorldOptions;
use vmpool_invariants::platform::TestedPlatform;

/// A scenario with the fault-free verdicts of its prelude and of all of it.
struct FaultFreeRun {
    scenario: FaultScenario,
    before: ScheduleResult,
    plain: ScheduleResult,
}

fn fault_free_runs(platform: TestedPlatform) -> Vec<FaultFreeRun> {
    let run = |scenario: FaultScenario| {
        let (before, plain) = (
            without_violation(scenario.name, scenario.before().run()),
            without_violation(scenario.name, scenario.plain().run_with_transcript()),
        );
        FaultFreeRun { scenario, before, plain }
    };
    all_scenarios(platform).into_iter().map(run).collect()
}

static SCENARIOS: LazyLock<Vec<FaultFreeRun>> = LazyLock::new(|| fault_free_runs(TestedPlatform::Dvp));
static KUBEVIRT_SCENARIOS: LazyLock<Vec<FaultFreeRun>> =
    LazyLock::new(|| fault_free_runs(TestedPlatform::KubeVirt));

fn removal_by_name() -> &'static FaultFreeRun {
    let transcript = SCENARIOS.iter().find(|transcript| transcript.scenario.name == "removal by name");
    transcript.expect("there is a scenario with this name")
}

/// Asserts that the run has no violation.
fn without_violation(name: &str, verdict: ScheduleResult) -> ScheduleResult {
    assert!(
        verdict.violations.is_empty(),
        "{name}: {:?}\n{}",
        verdict.violations,
        verdict.transcript.join("\n")
    );
    verdict
}

/// The last two have instance types, and images and autoscalers.
#[rstest]
fn the_same_seed_gives_the_same_run(
    #[values(
        (TestedPlatform::Dvp, 7), (TestedPlatform::KubeVirt, 41), (TestedPlatform::KubeVirt, 3303)
    )]
    (platform, seed): (TestedPlatform, u64),
) {
    let run = || Schedule::random(platform, seed).run_with_transcript().transcript;
    assert_eq!(run(), run());
}

#[test]
fn the_same_seed_gives_the_same_transcript_in_another_process() {
    // The schedule must contain a targeted removal, because only those need certificates.
    let seed =
        (0..1000).find(|seed| Schedule::random(TestedPlatform::Dvp, *seed).options.apiservers > 0).unwrap();
    let run = || {
        let output = Command::new(env!("CARGO_BIN_EXE_faults")).env("SEED", seed.to_string()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let transcript = run();
    assert!(transcript.contains("requestheader-client-ca-file"), "{transcript}");
    assert_eq!(run(), transcript);
}

#[test]
fn planned_faults_give_the_same_run_as_the_same_random_faults() {
    let schedules = (0..1000)
        .map(|seed| Schedule::random(TestedPlatform::Dvp, seed))
        .filter(|schedule| schedule.options.write_faults_per_mille > 50);
    let mut runs = schedules.map(|schedule| (schedule.run_with_transcript(), schedule));
    let with_fault = runs.find(|(random, _)| !random.injected.write_faults.is_empty());
    let (random, mut planned) = with_fault.expect("one of the schedules has a random fault");
    (planned.write_faults, planned.read_faults) =
        (random.injected.write_faults.clone(), random.injected.read_faults.clone());
    (planned.options.write_faults_per_mille, planned.options.read_faults_per_mille) = (0, 0);
    assert_eq!(planned.run_with_transcript().transcript, random.transcript);
}

/// In parts that run in parallel.
#[rstest]
fn random_schedules_break_no_invariant(#[values(0..250, 250..500, 500..750, 750..1000)] seeds: Range<u64>) {
    let mut former_leader_resumed = 0;
    for seed in seeds {
        let verdict = Schedule::random(TestedPlatform::Dvp, seed).run();
        assert!(
            verdict.violations.is_empty(),
            "make faults SEED={seed} prints the transcript: {:?}",
            verdict.violations
        );
        former_leader_resumed += u64::from(verdict.former_leader_resumed);
    }
    assert!(
        former_leader_resumed > 25,
        "only {former_leader_resumed} schedules in which a replaced leader resumed"
    );
}

/// Fewer than for DVP, because both platforms share most of the code.
#[test]
fn random_schedules_of_kubevirt_pools_break_no_invariant() {
    for seed in 0..150 {
        let verdict = Schedule::random(TestedPlatform::KubeVirt, seed).run();
        assert!(
            verdict.violations.is_empty(),
            "make faults PLATFORM=kubevirt SEED={seed} prints the transcript: {:?}",
            verdict.violations
        );
    }
}

/// With disk images and wrappers. Together with the schedules above, about 100.
#[test]
fn random_schedules_of_disk_images_break_no_invariant() {
    let schedules = (150..1000).map(|seed| (seed, Schedule::random(TestedPlatform::KubeVirt, seed)));
    for (seed, schedule) in schedules.filter(|(_, schedule)| schedule.options.images).take(60) {
        let verdict = schedule.run();
        assert!(
            verdict.violations.is_empty(),
            "make faults PLATFORM=kubevirt SEED={seed} prints the transcript: {:?}",
            verdict.violations
        );
    }
}

/// While the caches do not show who refers to an image, only a list from the API server does.
#[test]
fn an_image_is_held_by_references_that_no_cache_shows() {
    let scenarios = all_scenarios(TestedPlatform::KubeVirt);
    let scenario = scenarios.into_iter().find(|scenario| scenario.name == "an image deleted");
    let scenario = scenario.expect("there is a scenario with this name");
    let (before, plain) = (scenario.before().run(), without_violation("no fault", scenario.plain().run()));
    let schedules = scenario.with_faults(&before, &plain);
    let unseen: Vec<_> = schedules.into_iter().filter(|(name, _)| name.ends_with("unseen")).collect();
    assert!(unseen.len() > 50, "only {}", unseen.len());
    for (name, schedule) in unseen {
        without_violation(&name, schedule.run());
    }
}

#[rstest]
#[case::a_crash(WriteFault::CrashAfter, "is killed")]
#[case::a_replaced_leader(WriteFault::StallLate, "resumes")]
fn a_scenario_survives_a_fault_in_its_middle(
    #[values(&SCENARIOS, &KUBEVIRT_SCENARIOS)] scenarios: &'static LazyLock<Vec<FaultFreeRun>>,
    #[case] write_fault: WriteFault,
    #[case] expected: &str,
) {
    for FaultFreeRun { scenario, before, plain } in &**scenarios {
        // The controller writes nothing if the garbage collector does all the work.
        if plain.writes == before.writes {
            assert_eq!((scenario.platform, scenario.name), (TestedPlatform::Dvp, "the pool deleted"));
            continue;
        }
        let at = usize::midpoint(before.writes, plain.writes);
        let mut schedule = Schedule { write_faults: vec![(at, write_fault)], ..scenario.plain() };
        schedule.options.controllers = 2;
        let transcript =
            without_violation(scenario.name, schedule.run_with_transcript()).transcript.join("\n");
        assert!(
            transcript.contains(expected),
            "{}: the transcript lacks {expected:?}\n{transcript}",
            scenario.name
        );
    }
}

/// Of every scenario that only pools of KubeVirt have, a sample of all schedules.
/// `make faults EXHAUSTIVE=true PLATFORM=kubevirt` runs all of them.
#[test]
fn a_scenario_of_kubevirt_pools_survives_each_kind_of_fault() {
    const EVERY: usize = 61;
    let shared: Vec<&str> = SCENARIOS.iter().map(|run| run.scenario.name).collect();
    let of_kubevirt =
        KUBEVIRT_SCENARIOS.iter().filter(|run| !run.scenario.images && !shared.contains(&run.scenario.name));
    let mut tried = 0;
    for (place, FaultFreeRun { scenario, before, plain }) in of_kubevirt.enumerate() {
        // Each scenario begins at another schedule, so that together they have faults of every kind.
        let schedules = scenario.with_faults(before, plain).into_iter().skip(place).step_by(EVERY);
        for (name, schedule) in schedules {
            without_violation(&name, schedule.run());
            tried += 1;
        }
    }
    assert!(tried > 80, "only {tried} schedules");
}

/// The clocks of both controllers are ahead by an hour, and the second one becomes the leader.
#[rstest]
fn a_leader_whose_clock_is_ahead_replaces_no_machine(
    #[values(TestedPlatform::Dvp, TestedPlatform::KubeVirt)] platform: TestedPlatform,
) {
    let policy = if platform == TestedPlatform::Dvp { "NewestFirst" } else { "Newest" };
    let steps = vec![
        (0, ScheduleOperation::CreatePool(3, policy, vec![("root", Value::Null)])),
        (0, ScheduleOperation::Recycling(RecyclingOperation::LimitLifetime)),
        (10_000, ScheduleOperation::StepWallClock(0, 3600)),
        (0, ScheduleOperation::StepWallClock(1, 3600)),
        (60_000, ScheduleOperation::PauseLeader),
        (60_000, ScheduleOperation::Resume),
        (60_000, ScheduleOperation::Resume),
    ];
    let options =
        SimulatedWorldOptions { platform, controllers: 2, latency: 10, ..SimulatedWorldOptions::default() };
    let schedule = Schedule { options, steps, ..Schedule::default() };
    let transcript = without_violation("a clock that is ahead", schedule.run_with_transcript()).transcript;
    let deleted = transcript
        .iter()
        .filter(|line| line.contains(" virtualmachines web-") && line.ends_with(": deleted"));
    assert_eq!(deleted.count(), 0, "{}", transcript.join("\n"));
}

#[test]
fn a_targeted_removal_removes_only_its_targets() {
    let transcript = removal_by_name().plain.transcript.join("\n");
    assert!(transcript.contains("a client: Succeeded"), "{transcript}");
    assert!(transcript.contains("/spec/replicas=1"), "{transcript}");
}

/// The client receives no response and repeats the request.
#[test]
fn a_targeted_removal_survives_a_crash_of_the_replica_that_handles_it() {
    let FaultFreeRun { scenario, before, plain } = removal_by_name();
    for at in before.reads..plain.reads {
        let schedule = Schedule { read_faults: vec![(at, ReadFault::Crash)], ..scenario.plain() };
        let transcript =
            without_violation(&format!("read {at}"), schedule.run_with_transcript()).transcript.join("\n");
        assert!(
            transcript.contains("a client: Succeeded"),
            "read {at}: the removal never succeeded\n{transcript}"
        );
    }
}
