//! Metrics of requests to the API server, counted by a layer of the client: reads, writes, watches and the
//! lease.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use kube::Resource as _;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_platforms::{AttachmentOf, DiskOf, InstanceOf, Platform, PlatformName, with_platform};
use vmpool_runtime::Env;
use vmpool_runtime::metric_table;
use vmpool_runtime::metrics::{MetricsRegistry, histogram_family};

use super::label_values::{ApiResponseCode, Resource, Verb};
use super::labels::{DurationLabels, RequestLabels};
use crate::observed_requests::{ObservedExchange, RequestObserver, RequestObserverLayer};

/// From a fast API server on the same node to the deadline of a request.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 8.0];

/// Metrics of requests.
#[derive(Clone, Debug)]
pub struct ApiMetrics {
    env: Env,
    series: RequestSeries,
}

metric_table!(
    /// Requests, and how long they took.
    #[derive(Clone, Debug)]
    struct RequestSeries {
        /// Requests sent to the API server. Writes that were not sent because the lease ended too soon are
        /// only in vmpool_writes_total.
        requests: Family<RequestLabels, Counter> = "vmpool_api_requests_total" in "requests";
        /// Time from a request until its response began. Requests without a response and watches are omitted.
        durations: Family<DurationLabels, Histogram> = "vmpool_api_request_duration_seconds" in "seconds",
            histogram_family(|| Histogram::new(BUCKETS));
    }
);

impl ApiMetrics {
    pub(super) fn new(registry: &mut MetricsRegistry, env: &Env) -> Self {
        Self { env: env.clone(), series: RequestSeries::new(registry) }
    }

    /// The layer that counts the requests of a client, with the resources of all platforms.
    pub fn layer(&self) -> RequestObserverLayer<RequestCounter> {
        let plurals = |name| with_platform!(name, P => resource_plurals::<P>());
        RequestObserverLayer(RequestCounter {
            metrics: self.clone(),
            plurals: PlatformName::ALL.into_iter().flat_map(plurals).collect(),
        })
    }
}

/// The resources of a platform by their plurals.
fn resource_plurals<P: Platform>() -> [(Cow<'static, str>, Resource); 5] {
    [
        (P::Pool::plural(&()), Resource::Pools),
        (P::Machine::plural(&()), Resource::Machines),
        (DiskOf::<P>::plural(&()), Resource::Disks),
        (AttachmentOf::<P>::plural(&()), Resource::Attachments),
        (InstanceOf::<P>::plural(&()), Resource::Instances),
    ]
}

/// Counts the requests of a client.
#[derive(Clone, Debug)]
pub struct RequestCounter {
    metrics: ApiMetrics,
    plurals: Arc<[(Cow<'static, str>, Resource)]>,
}

impl RequestObserver for RequestCounter {
    type Exchange = CountedExchange;

    fn begin(&self, method: &Method, uri: &Uri) -> CountedExchange {
        let (verb, resource) = classify_request(&self.plurals, method, uri);
        let metrics = self.metrics.clone();
        let code = ApiResponseCode::NoResponse;
        CountedExchange { begun: metrics.env.uptime(), metrics, verb, resource, code }
    }
}

/// One request in flight. It is counted when it ends. If its future is dropped, it is counted as lost.
pub struct CountedExchange {
    metrics: ApiMetrics,
    begun: Duration,
    verb: Verb,
    resource: Resource,
    code: ApiResponseCode,
}

impl ObservedExchange for CountedExchange {
    fn answered(mut self, status: StatusCode, _: &HeaderMap) {
        self.code = ApiResponseCode::Status(status.as_u16());
        if self.verb != Verb::Watch {
            let took = self.metrics.env.uptime().saturating_sub(self.begun);
            let labels = DurationLabels { verb: self.verb, resource: self.resource };
            self.metrics.series.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }
}

impl Drop for CountedExchange {
    fn drop(&mut self) {
        let labels = RequestLabels { verb: self.verb, resource: self.resource, code: self.code };
        self.metrics.series.requests.get_or_create(&labels).inc();
    }
}

/// The verb and the resource of a request. Paths are those of the API:
/// `/apis/GROUP/VERSION/[namespaces/NAMESPACE/]PLURAL[/NAME[/SUB]]`, and `/api/VERSION/...` for the core
/// group.
fn classify_request(
    plurals: &[(Cow<'static, str>, Resource)],
    method: &Method,
    uri: &Uri,
) -> (Verb, Resource) {
    let mut path = uri.path().trim_start_matches('/').split('/');
    let prefix = if path.next() == Some("apis") { 2 } else { 1 };
    let mut path = path.skip(prefix);
    let mut plural = path.next();
    // The controller does not request namespaces themselves.
    if plural == Some("namespaces") {
        plural = path.nth(1);
    }
    let (name, subresource) = (path.next(), path.next());
    let resource = match plural {
        Some("events") => Resource::Events,
        Some("leases") => Resource::Leases,
        Some("controllerrevisions") => Resource::Revisions,
        Some(plural) => plurals
            .iter()
            .find(|(known, _)| known == plural)
            .map_or(Resource::Other, |(_, resource)| *resource),
        None => Resource::Other,
    };
    let resource = match (resource, subresource) {
        (resource, None) => resource,
        (Resource::Pools, Some("status")) => Resource::PoolStatus,
        (_, Some(_)) => Resource::Other,
    };
    let verb = match *method {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ if name.is_some() => Verb::Get,
        _ if uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true")) => {
            Verb::Watch
        }
        _ => Verb::List,
    };
    (verb, resource)
}

#[cfg(test)]
mod tests;
