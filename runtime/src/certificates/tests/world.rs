//! Replicas of a program, and clients that trust the published bundle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{ServerName, UnixTime};

use super::server::{CertificateApiServer, HOOKS, SERVICE, api_service, hooks};
use crate::certificates::CertificateMetrics;
use crate::certificates::args::{BundleOf, SecretName};
use crate::certificates::self_signed::{Desired, Maintainer};
use crate::certificates::timing::Timing;
use crate::env::{Clock as _, Task};
use crate::metrics::MetricsRegistry;
use crate::testing::{ManualClock, test_env};
use crate::tls::{ServingIdentity, crypto_provider, parse_certificates};

pub(super) const NAME: &str = "hook.ns.svc";

/// One process.
pub(super) struct CertificateReplica {
    pub(super) identity: ServingIdentity,
    pub(super) metrics: CertificateMetrics,
    pub(super) clock: ManualClock,
    _keeper: Task,
}

pub(super) struct CertificateWorld {
    pub(super) clock: ManualClock,
    pub(super) server: CertificateApiServer,
    pub(super) timing: Timing,
    pub(super) replicas: Vec<CertificateReplica>,
    /// How long API servers may still use the former bundle after a change.
    pub(super) lag: Duration,
    /// The maximum latency of a request, and of its response.
    pub(super) latency: Duration,
    /// The published bundles with their times, oldest first.
    history: Vec<(Duration, Vec<Vec<u8>>)>,
    seed: u64,
}

impl CertificateWorld {
    pub(super) fn new(timing: Timing) -> Self {
        let server = CertificateApiServer::default();
        server.put(HOOKS, hooks());
        server.put(SERVICE, api_service("hook"));
        let clock = ManualClock::new();
        Self {
            clock,
            server,
            timing,
            replicas: Vec::new(),
            lag: Duration::ZERO,
            latency: Duration::ZERO,
            history: Vec::new(),
            seed: 0,
        }
    }

    pub(super) fn start(&mut self, names: &[&str]) {
        self.seed += 1;
        let clock = self.clock.with_separate_wall_clock();
        let own = test_env(&clock, self.seed);
        let (identity, metrics) =
            (ServingIdentity::new(), CertificateMetrics::new(&mut MetricsRegistry::new()));
        let client = self.server.client(&self.clock, &test_env(&self.clock, 1000 + self.seed), self.latency);
        let wanted = Desired {
            secret: SecretName { namespace: "ns".to_owned(), name: "hook-tls".to_owned() },
            names: names.iter().map(|&name| name.to_owned()).collect(),
            bundles: vec![
                BundleOf::Webhooks("hook".to_owned()),
                BundleOf::ApiService("v1.example.com".to_owned()),
            ],
            timing: self.timing,
        };
        let keeper = Maintainer::new(client, wanted, identity.clone(), metrics.clone(), own.clone());
        let keeper = own.spawn("certificates", keeper.run());
        self.replicas.push(CertificateReplica { identity, metrics, clock, _keeper: keeper });
    }

    /// Skips random numbers, so that random events differ.
    pub(super) fn skip(&mut self, seeds: u64) {
        self.seed += seeds;
    }

    /// A client without latency.
    pub(super) fn client(&self) -> Client {
        self.server.client(&self.clock, &test_env(&self.clock, 0), Duration::ZERO)
    }

    /// Three replicas with the same certificate.
    pub(super) async fn settled(timing: Timing) -> Self {
        let mut world = Self::new(timing);
        for _ in 0..3 {
            world.start(&[NAME, "10.1.2.3"]);
        }
        world.pass(Duration::from_mins(10)).await;
        world.check();
        world
    }

    pub(super) async fn pass(&mut self, duration: Duration) {
        self.clock.advance(duration).await;
        let (now, bundles) = (self.clock.uptime(), self.server.bundles());
        if self.history.last().is_none_or(|(_, last)| *last != bundles) {
            self.history.push((now, bundles));
        }
    }

    /// Checks that each client accepts the certificate of each replica, with every bundle that is in use.
    pub(super) fn check(&self) {
        let now = self.clock.uptime();
        let current = self.history.last().unwrap();
        // A bundle is in use until `lag` after the next one was published.
        let replaced = self.history.windows(2).filter(|pair| pair[1].0 + self.lag > now).map(|pair| &pair[0]);
        for (_, bundles) in replaced.chain([current]) {
            for bundle in bundles.iter().collect::<BTreeSet<_>>() {
                for (number, replica) in self.replicas.iter().enumerate() {
                    if let Err(error) = accepts(bundle, &replica.identity, NAME, self.clock.now()) {
                        panic!("replica {number} at {}: {error}", self.clock.now());
                    }
                }
            }
        }
    }

    /// Advances the clock in steps, with a check after each.
    pub(super) async fn pass_checking(&mut self, duration: Duration, step: Duration) {
        let (mut left, mut checked) = (duration, None);
        while !left.is_zero() {
            self.pass(step.min(left)).await;
            left = left.saturating_sub(step);
            // An accepted certificate stays accepted until a change or expiry.
            let chains: Vec<_> = self.replicas.iter().map(|replica| replica.identity.chain()).collect();
            let tick = self.clock.uptime().as_nanos() / (self.timing.serving.as_nanos() / 30);
            let state = Some((self.history.len(), chains, tick));
            if checked != state {
                self.check();
                checked = state;
            }
        }
    }

    pub(super) fn made(&self, what: super::super::metrics::Rotated) -> u64 {
        self.replicas.iter().map(|replica| replica.metrics.rotations(what)).sum()
    }
}

/// Whether a client that trusts only `bundle` accepts the certificate of `identity` for `name` at `now`.
pub(super) fn accepts(
    bundle: &[u8],
    identity: &ServingIdentity,
    name: &str,
    now: Timestamp,
) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for der in parse_certificates("bundle", bundle).map_err(|error| error.to_string())? {
        roots.add(der).unwrap();
    }
    let chain = identity.chain();
    let (own, others) = chain.split_first().ok_or("no certificate")?;
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto_provider()).build().unwrap();
    let name = ServerName::try_from(name).unwrap();
    let seconds = Duration::from_secs(now.as_second().try_into().unwrap());
    verifier
        .verify_server_cert(own, others, &name, &[], UnixTime::since_unix_epoch(seconds))
        .map(drop)
        .map_err(|error| error.to_string())
}
