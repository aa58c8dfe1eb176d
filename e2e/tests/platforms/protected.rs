//! Protects machines as a user does, and reads what the pool and its machines show about it.

use anyhow::{Context, Result};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vmpool_e2e::world::condition::{PoolPredicate, PoolView};
use vmpool_e2e::world::{AggregatedApiResponse, PoolHandle, ScenarioWorld};
use vmpool_engine::protection::{CLAIM, CLOCK_SKEW, UNTIL};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;

/// The condition of a pool that protection blocks.
const BLOCKED: &str = "BlockedByProtection";

/// Whole seconds from now, as the annotation has them.
pub(crate) fn from_now(seconds: i64) -> String {
    (Timestamp::now() + SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time after which a machine stays protected for this many seconds because of the clock skew.
pub(crate) fn ends_in(seconds: i64) -> String {
    from_now(seconds - i64::try_from(CLOCK_SKEW.as_secs()).unwrap_or_default())
}

/// Writes or removes an annotation of a machine.
pub(crate) async fn annotate(
    world: &ScenarioWorld,
    machine: &JsonObject,
    key: &str,
    value: Value,
) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": { key: value } } });
    world.patch(TestedKind::Machine, machine.name(), &patch).await?;
    Ok(())
}

/// Protects a machine until this time.
pub(crate) async fn protect(world: &ScenarioWorld, machine: &JsonObject, until: &str) -> Result<()> {
    annotate(world, machine, UNTIL, json!(until)).await
}

/// Takes the protection off a machine.
pub(crate) async fn unprotect(world: &ScenarioWorld, machine: &JsonObject) -> Result<()> {
    annotate(world, machine, UNTIL, Value::Null).await
}

/// Protection blocks the pool, and the message of the condition contains these texts.
pub(crate) fn blocked(parts: &[&str]) -> PoolPredicate {
    let parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
    PoolPredicate::new(format!("condition {BLOCKED} with {parts:?}"), move |view| {
        let message = message(view);
        message.is_some_and(|message| parts.iter().all(|part| message.contains(part.as_str())))
    })
}

/// Protection does not block the pool.
pub(crate) fn not_blocked() -> PoolPredicate {
    PoolPredicate::new(format!("no condition {BLOCKED}"), |view| {
        view.pool().is_some() && message(view).is_none()
    })
}

fn message(view: PoolView<'_>) -> Option<String> {
    let found = view.pool()?.condition(BLOCKED)?;
    (found["status"] == "True").then(|| found["message"].as_str().unwrap_or_default().to_owned())
}

/// The pool has these live machines, in any order.
pub(crate) fn exactly(machines: &[&JsonObject]) -> PoolPredicate {
    let mut expected: Vec<String> = machines.iter().map(|machine| machine.uid().to_owned()).collect();
    expected.sort();
    let names: Vec<&str> = machines.iter().map(|machine| machine.name()).collect();
    PoolPredicate::new(format!("the machines {names:?}"), move |view| {
        let mut found: Vec<&str> = view.live().map(JsonObject::uid).collect();
        found.sort_unstable();
        found == expected
    })
}

/// This number of machines of the pool runs.
pub(crate) fn running(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} running machines"), move |view| {
        view.live().filter(|machine| machine.is_running()).count() == count
    })
}

/// The claim on a machine: its id.
pub(crate) fn claim_of(machine: &JsonObject) -> Option<String> {
    let claim: Value = serde_json::from_str(machine.annotation(CLAIM)?).ok()?;
    Some(claim["id"].as_str()?.to_owned())
}

/// The UID of the machine in the response to a claim.
pub(crate) fn uid_in(answer: &AggregatedApiResponse) -> Result<String> {
    let uid = answer.body["machine"]["uid"].as_str();
    uid.map(str::to_owned).with_context(|| answer.to_string())
}

/// The machine of a pool with this UID.
pub(crate) async fn machine(pool: &PoolHandle<'_>, uid: &str) -> Result<JsonObject> {
    let machines = pool.machines().await?;
    machines.into_iter().find(|machine| machine.uid() == uid).with_context(|| format!("no machine {uid}"))
}

/// The group of the aggregated API, which its roles name.
pub(crate) fn subresources(platform: TestedPlatform) -> &'static str {
    match platform {
        TestedPlatform::Dvp => "subresources.vmpool.dev",
        TestedPlatform::KubeVirt => "kubevirt.subresources.vmpool.dev",
    }
}

/// The rights of a program that claims machines, and nothing else.
pub(crate) fn claimer(platform: TestedPlatform) -> Value {
    json!([{
        "apiGroups": [subresources(platform)],
        "resources": ["virtualmachinepools/claim", "virtualmachinepools/release"],
        "verbs": ["create"],
    }])
}

/// Fails unless the response has this code, this reason and these parts of a message.
pub(crate) fn expect(
    answer: &AggregatedApiResponse,
    code: StatusCode,
    reason: &str,
    parts: &[&str],
) -> Result<()> {
    let matches = answer.code == code.as_u16()
        && answer.reason() == reason
        && parts.iter().all(|part| answer.message().contains(part));
    anyhow::ensure!(matches, "expected {code} {reason} {parts:?}, got {answer}");
    Ok(())
}
