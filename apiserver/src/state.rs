//! What requests are answered with.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use vmpool_runtime::Env;
use vmpool_runtime::health::Health;
use vmpool_runtime::tls::ClientCas;

use crate::authentication::{Authenticator, follow};
use crate::authorization::Authorizer;
use crate::cluster::Cluster;
use crate::documents::Documents;
use crate::metrics::Metrics;
use crate::removal::Remover;

/// All that the answers to requests depend on.
pub struct State {
    pub(crate) env: Env,
    pub(crate) enabled: bool,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    pub(crate) cluster: Cluster,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) documents: &'static Documents,
    pub(crate) remover: Arc<Remover>,
}

/// How a server behaves.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Whether the server serves its resource. Otherwise it serves only documents about itself.
    pub enabled: bool,
    /// The controller drops no reservation before it is this old.
    pub accept_within: Duration,
    /// How long one call to the API server may take.
    pub request_timeout: Duration,
}

impl State {
    /// The state of a server with these settings. `client` must not repeat requests by itself.
    pub fn new(client: Client, env: Env, settings: Settings, health: Health, metrics: Metrics) -> Arc<Self> {
        let Settings { enabled, accept_within, request_timeout } = settings;
        let cluster = Cluster::new(client, env.clone(), request_timeout);
        let authenticator = Authenticator::default();
        health.ready("authentication", {
            let authenticator = authenticator.clone();
            move || authenticator.check()
        });
        Arc::new(Self {
            enabled,
            health,
            authenticator,
            authorizer: Authorizer::new(cluster.clone(), env.clone(), metrics.clone()),
            documents: Documents::of(enabled),
            remover: Remover::new(cluster.clone(), env.clone(), accept_within, metrics.clone()),
            metrics,
            cluster,
            env,
        })
    }

    /// Keeps up with how the front proxy is recognised, for ever. Until it was read once, nobody is.
    pub fn follow_front_proxy(&self, clients: ClientCas) -> impl Future<Output = ()> + Send + 'static {
        follow(self.cluster.clone(), self.authenticator.clone(), clients, self.env.clone())
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}
