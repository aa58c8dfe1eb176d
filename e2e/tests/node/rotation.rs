//! Certificates are replaced while they are in use.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use vmpool_e2e::world::SETTLE;
use vmpool_installation::programs::{Component, SYSTEM_NAMESPACE};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::poll;
use vmpool_test_cluster::{Error, Result};

use crate::stage::at_any_time;

/// Longer than the certificate authorities are valid with the values of these tests. The validity restarts
/// when another test reinstalls the chart.
const DEADLINE: Duration = Duration::from_mins(5);

/// The certificates in the Secrets: the serving certificate and its authority.
const PARTS: [&str; 2] = ["tls.crt", "ca.crt"];

/// All certificates of both components; empty where a Secret does not exist.
pub(crate) async fn parts(access: &Access) -> Result<Vec<Vec<u8>>> {
    let secrets = Api::<Secret>::namespaced(access.client.clone(), SYSTEM_NAMESPACE);
    let mut parts = Vec::new();
    for component in Component::ALL {
        let secret = secrets.get_opt(component.secret()).await;
        let secret = secret.map_err(Error::api(format!("reading {}", component.secret())))?;
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        parts.extend(PARTS.map(|part| data.get(part).map(|bytes| bytes.0.clone()).unwrap_or_default()));
    }
    Ok(parts)
}

pub(crate) fn certificates_and_authorities_are_replaced_without_failed_requests() {
    at_any_time(async |stage| {
        // Other tests run meanwhile.
        let replaced = async || {
            let now = parts(stage.access()).await?;
            let all = now.iter().zip(stage.first_certificates());
            let kept = all.filter(|(now, first)| now.is_empty() || now == first).count();
            Ok(if kept == 0 { Ok(()) } else { Err(format!("{kept} certificates are not replaced")) })
        };
        poll::poll_until(|| "all certificates are replaced".to_owned(), DEADLINE, replaced).await?;
        tokio::time::sleep(SETTLE).await;
        // Every request was served, except during periods in which a test made the servers unavailable.
        stage.load().ensure_always_served()
    });
}
