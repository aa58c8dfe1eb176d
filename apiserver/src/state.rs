//! The components that handle requests.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use vmpool_platforms::removal::Apis;
use vmpool_runtime::Env;
use vmpool_runtime::health::HealthEndpoints;
use vmpool_runtime::tls::ClientCas;

use crate::authentication::{Authenticator, follow_front_proxy_config};
use crate::authorization::Authorizer;
use crate::claims::Claims;
use crate::cluster::ClusterClient;
use crate::documents::Documents;
use crate::metrics::ApiServerMetrics;
use crate::removal::Remover;
use crate::served::{self, ServedApis};

/// The components that handle requests.
pub struct ApiServerState {
    pub(crate) env: Env,
    pub(crate) health: HealthEndpoints,
    pub(crate) metrics: ApiServerMetrics,
    pub(crate) cluster: ClusterClient,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) apis: ServedApis,
    documents: Documents,
    shared_documents: Documents,
    pub(crate) remover: Arc<Remover>,
    pub(crate) claims: Arc<Claims>,
}

/// The settings of a server.
#[derive(Debug, Clone, Copy)]
pub struct ApiServerSettings {
    /// Whether the server serves its resource. Otherwise it serves only documents about itself.
    pub enabled: bool,
    /// The served APIs.
    pub apis: Apis,
    /// The controller drops no reservation before it is this old.
    pub accept_within: Duration,
    /// Whether claims without a machine are recorded for autoscalers.
    pub autoscales: bool,
    /// The deadline of each request to kube-apiserver.
    pub request_timeout: Duration,
}

impl ApiServerState {
    /// The state of a server with these settings. `client` must not retry requests by itself.
    pub fn new(
        client: Client,
        env: Env,
        settings: ApiServerSettings,
        health: HealthEndpoints,
        metrics: ApiServerMetrics,
    ) -> Arc<Self> {
        let ApiServerSettings { enabled, apis, accept_within, autoscales, request_timeout } = settings;
        let cluster = ClusterClient::new(client, env.clone(), request_timeout);
        let authenticator = Authenticator::default();
        health.ready("authentication", {
            let authenticator = authenticator.clone();
            move || authenticator.check()
        });
        let served = ServedApis::new(apis, enabled);
        health.ready("platform", {
            let served = served.clone();
            move || served.check()
        });
        let with = if enabled { apis } else { Apis::NONE };
        let remover = Remover::new(cluster.clone(), env.clone(), accept_within, metrics.clone());
        Arc::new(Self {
            health,
            authenticator,
            authorizer: Authorizer::new(cluster.clone(), env.clone(), metrics.clone()),
            documents: Documents::new(apis, with),
            shared_documents: Documents::new(apis, with.without_reference()),
            apis: served,
            claims: Claims::new(
                cluster.clone(),
                env.clone(),
                metrics.clone(),
                Arc::clone(&remover),
                autoscales,
            ),
            remover,
            metrics,
            cluster,
            env,
        })
    }

    /// The documents that list these resources.
    pub(crate) fn documents(&self, apis: Apis) -> &Documents {
        if apis.reference.is_some() { &self.documents } else { &self.shared_documents }
    }

    /// Reads periodically whether the platform is installed, if the server serves its group otherwise.
    /// Returns at once if it does not.
    pub fn follow_platform(&self) -> impl Future<Output = ()> + Send + 'static {
        served::follow_installations(self.apis.clone(), self.cluster.clone(), self.env.clone())
    }

    /// Reads the configuration of the front proxy periodically and never returns. Until the first successful
    /// read, no caller is authenticated.
    pub fn follow_front_proxy(&self, clients: ClientCas) -> impl Future<Output = ()> + Send + 'static {
        follow_front_proxy_config(self.cluster.clone(), self.authenticator.clone(), clients, self.env.clone())
    }
}

impl std::fmt::Debug for ApiServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("apis", &self.apis).finish_non_exhaustive()
    }
}
