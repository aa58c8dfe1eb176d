//! Runs scenarios as tests.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use vmpool_installation::installation::{ClusterInstallation, GuardOptions};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::{Result, error_with_causes};

use crate::harness;
use crate::world::ScenarioWorld;

/// Default timeout of a scenario. All its waits have their own timeouts, so that this one only limits
/// mistakes.
pub const LIMIT: Duration = Duration::from_mins(6);

/// Additional time for the start and the end of a scenario.
const MARGIN: Duration = Duration::from_mins(2);

/// A scenario to run: by default on the shared cluster, with one controller and a full end.
#[must_use = "a scenario does nothing until it runs"]
pub struct Scenario {
    name: &'static str,
    platform: Option<TestedPlatform>,
    own_cluster: bool,
    fault_proxy: bool,
    all_features: bool,
    guard: Option<GuardOptions>,
    controllers: usize,
    ending: Ending,
    limit: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The state becomes stable, deleted pools leave nothing behind, and the controllers exit successfully.
    Full,
    /// Only the invariants are checked.
    Invariants,
}

/// A scenario with this name, which is a sentence.
pub fn define_scenario(name: &'static str) -> Scenario {
    Scenario {
        name,
        platform: None,
        own_cluster: false,
        fault_proxy: false,
        all_features: false,
        guard: None,
        controllers: 1,
        ending: Ending::Full,
        limit: LIMIT,
    }
}

impl Scenario {
    /// Runs on a separate cluster, for scenarios that damage the cluster or count all its requests.
    pub fn on_its_own_cluster(mut self) -> Self {
        self.own_cluster = true;
        self
    }

    /// Runs with a pool of this platform, on a cluster with both platforms, the webhook and the aggregated
    /// API. The default is DVP, on a cluster without KubeVirt.
    pub fn on(mut self, platform: TestedPlatform) -> Self {
        self.platform = Some(platform);
        self
    }

    /// Runs with the webhook and the aggregated API, as the chart deploys them.
    pub fn guarded(mut self) -> Self {
        self.guard = Some(GuardOptions::default());
        self
    }

    /// Runs on a separate cluster with the webhook and the aggregated API, with other options than the
    /// default.
    pub fn guarded_by(mut self, options: GuardOptions) -> Self {
        self.guard = Some(options);
        self.on_its_own_cluster()
    }

    /// Runs where the webhook and the aggregated API can be killed at one of their requests: see
    /// [`harness::with_fault_proxies`].
    pub fn with_fault_proxy(mut self) -> Self {
        self.fault_proxy = true;
        self
    }

    /// Runs where the chart has the feature gates of PoolAutoscalers, image refresh and standby machines: see
    /// [`harness::with_all_features`]. The controllers of the scenario need their gates, too.
    pub fn with_all_features(mut self) -> Self {
        self.all_features = true;
        self
    }

    /// Sets the number of controllers; the default is one.
    pub fn controllers(mut self, controllers: usize) -> Self {
        self.controllers = controllers;
        self
    }

    /// Ends without waiting for a stable state, for scenarios that do not reach one: without a controller, or
    /// with a machine that never stops. The invariants are checked nevertheless.
    pub fn ends_unsettled(mut self) -> Self {
        self.ending = Ending::Invariants;
        self
    }

    /// Sets the timeout; the default is [`LIMIT`].
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the scenario on the runtime of the harness. After `body` the state must become stable, and
    /// deleted pools must leave nothing behind.
    ///
    /// # Panics
    /// If an expectation of `body` or an invariant is violated, with a report of the scenario's state and
    /// logs.
    #[expect(clippy::panic, reason = "this is how a test fails")]
    pub fn run(self, body: impl AsyncFnOnce(&ScenarioWorld) -> anyhow::Result<()>) {
        let (name, limit) = (self.name, self.limit + MARGIN);
        let outcome = harness::block_on(async { Deadline::after(limit).within(self.start(body)).await });
        let late = |elapsed| Err(format!("scenario `{name}` has not completed within {elapsed}"));
        if let Err(report) = outcome.unwrap_or_else(late) {
            panic!("{report}");
        }
    }

    async fn start(self, body: impl AsyncFnOnce(&ScenarioWorld) -> anyhow::Result<()>) -> Result<(), String> {
        let begin =
            |error| format!("scenario `{}` could not start: {}", self.name, error_with_causes(&error));
        harness::check_embedded().map_err(begin)?;
        let installation = match self.guard.clone() {
            guard if self.own_cluster => {
                ClusterInstallation::start(&self.name.replace(' ', "-"), guard).await.map(Arc::new)
            }
            _shared if self.fault_proxy => harness::with_fault_proxies().await,
            _shared if self.all_features => harness::with_all_features().await,
            _shared if self.platform.is_some() => harness::both_platforms().await,
            Some(_default) => harness::guarded_installation().await,
            None => harness::installation_on_shared_cluster().await,
        };
        let installation = installation.map_err(begin)?;
        let world = ScenarioWorld::start_on(
            self.platform.unwrap_or_default(),
            self.name,
            installation.clone(),
            self.controllers,
        )
        .await
        .map_err(|error| {
            installation.cluster().keep_directory();
            begin(error)
        })?;
        let outcome = run_body(&world, self.ending, self.limit, body).await;
        if outcome.is_err() {
            world.cluster().keep_directory();
        }
        drop(world);
        if self.own_cluster
            && let Ok(own) = Arc::try_unwrap(installation)
        {
            let stopped = own.stop().await.map_err(|error| error_with_causes(&error));
            return outcome.and(stopped);
        }
        outcome
    }
}

/// Runs a scenario with this name on a cluster where the chart is installed, with a full end.
///
/// # Errors
/// The violated expectation of `body` or invariant, with a report of the scenario's state and logs.
pub async fn run_scenario_on_cluster(
    name: &str,
    access: &Access,
    body: impl AsyncFnOnce(&ScenarioWorld) -> anyhow::Result<()>,
) -> Result<(), String> {
    let world = ScenarioWorld::visit(name, access.clone()).await;
    let world =
        world.map_err(|error| format!("scenario `{name}` could not start: {}", error_with_causes(&error)))?;
    run_body(&world, Ending::Full, LIMIT, body).await
}

/// Runs the body of a scenario and its end.
async fn run_body(
    world: &ScenarioWorld,
    ending: Ending,
    limit: Duration,
    body: impl AsyncFnOnce(&ScenarioWorld) -> anyhow::Result<()>,
) -> Result<(), String> {
    let run = async {
        match AssertUnwindSafe(body(world)).catch_unwind().await {
            Ok(Ok(())) => {
                end(world, ending).await.map_err(|error| format!("at the end: {}", error_with_causes(&error)))
            }
            Ok(Err(error)) => Err(error_with_causes(error.as_ref())),
            // The message of the panic was already printed to the test's output.
            Err(_panic) => Err("it panicked, see above".to_owned()),
        }
    };
    let outcome = Deadline::after(limit).within(run).await;
    let outcome = outcome.unwrap_or_else(|elapsed| Err(format!("it has not completed after {elapsed}")));
    let name = world.name();
    let seconds = world.age().as_secs_f32();
    tracing::info!(scenario = name, seconds, failed = outcome.is_err(), "scenario completed");
    outcome.map_err(|error| format!("scenario `{name}` failed: {error}\n\n{}", world.report()))
}

async fn end(world: &ScenarioWorld, ending: Ending) -> Result<()> {
    world.check().await?;
    if ending == Ending::Full {
        world.settles().await?;
        world.check().await?;
        world.clear().await?;
        world.stop_controllers().await?;
    }
    world.delete_namespace().await
}
