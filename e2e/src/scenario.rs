//! Running a scenario as a test.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use vmpool_installation::installation::{GuardOptions, Installation};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::{Result, chain};

use crate::harness;
use crate::provider::check_embedded;
use crate::world::World;

/// How long a scenario may take. All that it waits for has a deadline of its own, so that this one only bounds mistakes.
pub const LIMIT: Duration = Duration::from_mins(6);

/// How long it may take around that to begin and to end.
const MARGIN: Duration = Duration::from_mins(2);

/// A scenario that is about to run: on the shared cluster, with one controller, and with a full ending.
#[must_use = "a scenario does nothing until it runs"]
pub struct Scenario {
    name: &'static str,
    own_cluster: bool,
    fault_proxy: bool,
    guard: Option<GuardOptions>,
    controllers: usize,
    ending: Ending,
    limit: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The world settles, the pools go without a trace, the controllers end well.
    Full,
    /// Only the invariants are checked once more.
    Invariants,
}

/// A scenario of this name, which is a sentence.
pub fn scenario(name: &'static str) -> Scenario {
    Scenario {
        name,
        own_cluster: false,
        fault_proxy: false,
        guard: None,
        controllers: 1,
        ending: Ending::Full,
        limit: LIMIT,
    }
}

impl Scenario {
    /// Runs on a cluster of its own, because it hurts the cluster or counts what the whole cluster does.
    pub fn on_its_own_cluster(mut self) -> Self {
        self.own_cluster = true;
        self
    }

    /// Runs where webhook and aggregated API are at work, as the chart deploys them.
    pub fn guarded(mut self) -> Self {
        self.guard = Some(GuardOptions::default());
        self
    }

    /// Runs on a cluster of its own, where webhook and aggregated API are at work in another way than by default.
    pub fn guarded_by(mut self, options: GuardOptions) -> Self {
        self.guard = Some(options);
        self.on_its_own_cluster()
    }

    /// Runs where webhook and aggregated API can be killed at a request of theirs: see [`harness::with_fault_proxies`].
    pub fn with_fault_proxy(mut self) -> Self {
        self.fault_proxy = true;
        self
    }

    /// Starts with another number of controllers than one.
    pub fn controllers(mut self, controllers: usize) -> Self {
        self.controllers = controllers;
        self
    }

    /// Ends without settling, since the scenario leaves a world that cannot: no controller, a machine that never
    /// stops. The invariants are checked all the same.
    pub fn ends_unsettled(mut self) -> Self {
        self.ending = Ending::Invariants;
        self
    }

    /// Ends within another time than [`LIMIT`].
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it to its end on the runtime of the harness. After `body` the world must settle, and deleting the pools
    /// must leave nothing behind.
    ///
    /// # Panics
    /// If anything is not as `body` or an invariant expects, with everything that the reader will ask for.
    #[expect(clippy::panic, reason = "this is how a test fails")]
    pub fn run(self, body: impl AsyncFnOnce(&World) -> anyhow::Result<()>) {
        let (name, limit) = (self.name, self.limit + MARGIN);
        let outcome = harness::block_on(async { Deadline::after(limit).within(self.play(body)).await });
        let late = |elapsed| Err(format!("scenario `{name}` has neither begun nor ended within {elapsed}"));
        if let Err(report) = outcome.unwrap_or_else(late) {
            panic!("{report}");
        }
    }

    async fn play(self, body: impl AsyncFnOnce(&World) -> anyhow::Result<()>) -> Result<(), String> {
        let begin = |error| format!("scenario `{}` could not begin: {}", self.name, chain(&error));
        check_embedded().map_err(begin)?;
        let installation = match self.guard.clone() {
            guard if self.own_cluster => {
                Installation::start(&self.name.replace(' ', "-"), guard).await.map(Arc::new)
            }
            _shared if self.fault_proxy => harness::with_fault_proxies().await,
            Some(_default) => harness::guarded().await,
            None => harness::installation().await,
        };
        let installation = installation.map_err(begin)?;
        let world =
            World::start(self.name, installation.clone(), self.controllers).await.map_err(|error| {
                installation.cluster().keep_directory();
                begin(error)
            })?;
        let outcome = played(&world, self.ending, self.limit, body).await;
        if outcome.is_err() {
            world.cluster().keep_directory();
        }
        drop(world);
        if self.own_cluster
            && let Ok(own) = Arc::try_unwrap(installation)
        {
            let stopped = own.stop().await.map_err(|error| chain(&error));
            return outcome.and(stopped);
        }
        outcome
    }
}

/// Runs a scenario of this name on a cluster where the chart is installed, with a full ending.
///
/// # Errors
/// What was not as `body` or an invariant expects, with everything that the reader will ask for.
pub async fn visit(
    name: &str,
    access: &Access,
    body: impl AsyncFnOnce(&World) -> anyhow::Result<()>,
) -> Result<(), String> {
    let world = World::visit(name, access.clone()).await;
    let world = world.map_err(|error| format!("scenario `{name}` could not begin: {}", chain(&error)))?;
    played(&world, Ending::Full, LIMIT, body).await
}

/// Plays a scenario in its world, and ends it.
async fn played(
    world: &World,
    ending: Ending,
    limit: Duration,
    body: impl AsyncFnOnce(&World) -> anyhow::Result<()>,
) -> Result<(), String> {
    let story = async {
        match AssertUnwindSafe(body(world)).catch_unwind().await {
            Ok(Ok(())) => end(world, ending).await.map_err(|error| format!("at its end: {}", chain(&error))),
            Ok(Err(error)) => Err(chain(error.as_ref())),
            // The panic's own message went to the test's output already.
            Err(_panic) => Err("it panicked, see above".to_owned()),
        }
    };
    let outcome = Deadline::after(limit).within(story).await;
    let outcome = outcome.unwrap_or_else(|elapsed| Err(format!("it has not ended after {elapsed}")));
    let name = world.name();
    let seconds = world.age().as_secs_f32();
    tracing::info!(scenario = name, seconds, failed = outcome.is_err(), "ends");
    outcome.map_err(|error| format!("scenario `{name}` failed: {error}\n\n{}", world.report()))
}

async fn end(world: &World, ending: Ending) -> Result<()> {
    world.check().await?;
    if ending == Ending::Full {
        world.settles().await?;
        world.check().await?;
        world.clear().await?;
        world.stop_controllers().await?;
    }
    world.delete_namespace().await
}
