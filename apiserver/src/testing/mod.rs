//! The environment of the tests: the API server model, a minimal controller, processes that a test can kill,
//! and a manual clock.

mod controller;
mod process;
mod server;
mod store;

pub(crate) use controller::record_of;
pub(crate) use process::{ApiServerProcess, TestResponse, front_proxy, request_as_alice, results_of};
pub(crate) use server::{FaultyApiServer, RequestFault};
pub(crate) use store::FaultyServerStore;
pub(crate) use vmpool_model::{Call, Verb};

use std::pin::pin;
use std::time::Duration;

use crate::state::ApiServerSettings;
use vmpool_platforms::removal::STANDALONE_APIS;
use vmpool_runtime::Env;
use vmpool_runtime::testing::{ManualClock, test_env};

/// The namespace of all objects.
pub(crate) const NAMESPACE: &str = "team-a";

/// The verb with which this program changes pools.
pub(crate) const MERGE_PATCH: Verb = Verb::Patch(vmpool_model::PatchKind::Merge);

/// Whether the request changes a stored object. Reviews are not stored.
pub(crate) fn is_write(call: &Call) -> bool {
    call.is_write() && call.resource != "subjectaccessreviews"
}

/// The duration of a request together with its response.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(2);

/// The default settings. The controller in these tests drops reservations after 30 s.
pub(crate) const SETTINGS: ApiServerSettings = ApiServerSettings {
    enabled: true,
    apis: vmpool_platforms::removal::APIS,
    accept_within: Duration::from_secs(25),
    autoscales: false,
    request_timeout: Duration::from_secs(12),
};

/// An API server and a clock.
pub(crate) struct ApiServerWorld {
    pub(crate) clock: ManualClock,
    pub(crate) env: Env,
    pub(crate) server: FaultyApiServer,
}

impl ApiServerWorld {
    pub(crate) fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        let env = test_env(&clock, seed);
        Self { server: FaultyApiServer::new(&env), env, clock }
    }

    /// A world with a pool `web` of this many machines, `web-0` and so on.
    pub(crate) fn with_pool(seed: u64, replicas: usize) -> Self {
        let world = Self::new(seed);
        world.server.store(|store| store.create_pool("web", replicas));
        world
    }

    /// A process with the feature gate on.
    pub(crate) fn process(&self, seed: u64) -> ApiServerProcess {
        ApiServerProcess::start(self, seed, SETTINGS)
    }

    /// A process in a cluster without KubeVirt, that has read whether there is one.
    pub(crate) async fn standalone(&self) -> ApiServerProcess {
        let process =
            ApiServerProcess::start(self, 1, ApiServerSettings { apis: STANDALONE_APIS, ..SETTINGS });
        self.clock.advance(ROUND_TRIP * 2).await;
        process
    }

    /// The time since an uptime.
    pub(crate) fn since(&self, start: Duration) -> Duration {
        self.env.uptime().saturating_sub(start)
    }

    /// Runs `future` to its end while the clock advances.
    pub(crate) async fn through<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let (mut seen, mut quiet) = (0, 0);
        loop {
            for _ in 0..8 {
                if let std::task::Poll::Ready(output) = futures::poll!(&mut future) {
                    return output;
                }
                tokio::task::yield_now().await;
            }
            quiet = if seen == self.server.requests() { quiet + 1 } else { 0 };
            seen = self.server.requests();
            // A round trip takes two short steps. Long steps are taken while no requests are sent.
            self.clock.advance(if quiet < 8 { ROUND_TRIP / 2 } else { ROUND_TRIP * 10 }).await;
        }
    }

    /// Runs the controller until the state no longer changes, including dropped reservations.
    pub(crate) async fn settle(&self) {
        for _ in 0..16 {
            self.clock.advance(Duration::from_secs(5)).await;
            self.server.store(|store| store.reconcile(self.env.uptime()));
        }
    }
}

impl Drop for ApiServerWorld {
    fn drop(&mut self) {
        self.server.shut_down();
    }
}
