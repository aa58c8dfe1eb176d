//! The certificate is replaced while clients of both protocols send requests continuously.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::world::{BoxedError, Client, H1, H2, HttpsWorld};
use crate::https::Limits;
use crate::tls::pki::Ca;

/// The number of replacements of the certificate.
const SWAPS: usize = 20;
/// The number of requests of a client on each connection.
const REQUESTS: usize = 10;

#[derive(Default)]
struct Tally {
    answered: AtomicUsize,
    failures: Mutex<Vec<String>>,
    /// The certificates of the handshakes.
    certificates: Mutex<BTreeSet<Vec<u8>>>,
}

#[tokio::test]
async fn no_request_fails_while_the_certificate_is_replaced() {
    let world = Arc::new(HttpsWorld::new(Limits::default()).await);
    let next = Ca::new("next");
    let bundle = Arc::<str>::from(format!("{}{}", world.ca.pem(), next.pem()));
    let (tally, done) = (Arc::<Tally>::default(), CancellationToken::new());
    let mut clients = Vec::new();
    for alpn in [H1, H2, H1, H2] {
        let (world, tally, done, bundle) =
            (Arc::clone(&world), Arc::clone(&tally), done.clone(), Arc::clone(&bundle));
        clients.push(world.env.clone().spawn("asking", async move {
            while !done.is_cancelled() {
                if let Err(error) = ask(&world, &bundle, alpn, &tally).await {
                    tally.failures.lock().push(error.to_string());
                }
            }
        }));
    }
    world.until(|| !tally.certificates.lock().is_empty()).await;
    for swap in 0..SWAPS {
        let ca = if swap % 2 == 0 { &next } else { &world.ca };
        let leaf = ca.serving("localhost");
        let before = tally.certificates.lock().len();
        world.identity.replace(leaf.chain.as_bytes(), leaf.key.as_bytes()).unwrap();
        world.until(|| tally.certificates.lock().len() > before).await;
    }
    done.cancel();
    for client in clients {
        world.env.timeout(Duration::from_secs(10), client.join()).await.unwrap().unwrap();
    }
    assert_eq!(*tally.failures.lock(), Vec::<String>::new());
    assert!(tally.certificates.lock().len() > SWAPS);
    assert!(tally.answered.load(Ordering::Relaxed) > 10 * SWAPS);
}

async fn ask(world: &HttpsWorld, bundle: &str, alpn: &[&[u8]], tally: &Tally) -> Result<(), BoxedError> {
    let stream = world.tls_trusting(bundle.as_bytes(), alpn, None).await?;
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let mut client = Client::over(stream).await?;
    tally.certificates.lock().insert(shown);
    for _ in 0..REQUESTS {
        let (status, body) = client.post("/echo", vec![b'x'; 3000], true).await?;
        if status != StatusCode::OK || body.len() != 3000 {
            return Err(format!("{status} {}", body.len()).into());
        }
        tally.answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
