use std::path::Path;

use tempfile::TempDir;

use crate::certificates::CertificateMetrics;
use crate::certificates::files::{FileReader, PERIOD};
use crate::certificates::metrics::{Rotated, Stage};
use crate::env::Task;
use crate::metrics::MetricsRegistry;
use crate::testing::{ManualClock, test_env};
use crate::tls::ServingIdentity;
use crate::tls::pki::{Ca, Leaf};

struct World {
    folder: TempDir,
    clock: ManualClock,
    identity: ServingIdentity,
    metrics: CertificateMetrics,
    _follower: Task,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (clock, identity) = (ManualClock::new(), ServingIdentity::new());
        let metrics = CertificateMetrics::new(&mut MetricsRegistry::new());
        let env = test_env(&clock, 1);
        let path = |name: &str| folder.path().join(name);
        let follower =
            FileReader::new(path("tls.crt"), path("tls.key"), identity.clone(), metrics.clone(), env.clone());
        let follower = env.spawn("files", follower.run());
        Self { folder, clock, identity, metrics, _follower: follower }
    }

    fn write(&self, leaf: &Leaf) {
        write(self.folder.path(), "tls.crt", &leaf.chain);
        write(self.folder.path(), "tls.key", &leaf.key);
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[tokio::test]
async fn files_that_are_created_or_changed_later_are_read() {
    let (world, ca) = (World::new(), Ca::new("ca"));
    world.clock.advance(PERIOD).await;
    assert!(!world.identity.is_ready());
    assert_eq!(world.metrics.failures(Stage::Files), 2);

    world.write(&ca.serving_until("a", "2031-01-01T00:00:00Z".parse().unwrap()));
    world.clock.advance(PERIOD).await;
    assert_eq!(world.identity.expires(), Some("2031-01-01T00:00:00Z".parse().unwrap()));
    world.write(&ca.serving_until("a", "2032-01-01T00:00:00Z".parse().unwrap()));
    world.clock.advance(PERIOD).await;
    assert_eq!(world.identity.expires(), Some("2032-01-01T00:00:00Z".parse().unwrap()));
    world.clock.advance(10 * PERIOD).await;
    assert_eq!((world.metrics.rotations(Rotated::Files), world.metrics.failures(Stage::Files)), (2, 2));
    let expiry: jiff::Timestamp = "2032-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(world.metrics.serving_expiry(), expiry.as_second());
}

#[tokio::test]
async fn files_that_do_not_belong_together_change_nothing_until_they_do() {
    let (world, ca) = (World::new(), Ca::new("ca"));
    let (one, other) = (ca.serving("a"), ca.serving("b"));
    world.write(&one);
    world.clock.advance(PERIOD).await;
    let shown = world.identity.chain();
    write(world.folder.path(), "tls.crt", &other.chain);
    world.clock.advance(PERIOD).await;
    assert_eq!(world.identity.chain(), shown);
    write(world.folder.path(), "tls.key", &other.key);
    world.clock.advance(PERIOD).await;
    assert_ne!(world.identity.chain(), shown);
}
