//! Counts the requests in a settled state.

use vmpool_test_cluster::control_plane::RequestCounts;

use crate::lab::{Lab, of_pools};
use crate::options::BenchOptions;

/// The requests during the observation time, without watches and leases.
pub(crate) async fn count_settled_requests(
    lab: &Lab,
    options: &BenchOptions,
) -> anyhow::Result<RequestCounts> {
    let before = lab.cluster().metrics().await?;
    tokio::time::sleep(options.settle).await;
    let requests = lab.cluster().metrics().await?.since(&before).only(of_pools);
    Lab::note(&format!("{} requests besides watches and leases", requests.total()));
    Ok(requests)
}
