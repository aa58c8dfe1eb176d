//! The test of the release, as a user runs it with helm.

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::DeleteParams;
use vmpool_installation::programs::SYSTEM_NAMESPACE;

use crate::stage::alone;

/// The name of the Pod, and of its account.
const NAME: &str = "vmpool-doctor";

pub(crate) fn the_test_of_the_release_passes_and_leaves_no_rights() {
    alone(async |cluster| {
        let client = &cluster.access().client;
        let log = cluster.release().test().await?;
        for line in
            ["ok       DVP webhook: refuses an invalid pool", "ok       DVP API service", "ok       leader"]
        {
            ensure!(log.contains(line), "{line} is missing: {log}");
        }
        ensure!(!log.contains("failed   "), "{log}");
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        ensure!(accounts.get_opt(NAME).await?.is_none(), "the account stays");
        // The Pod stays for its log.
        let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
        pods.delete(NAME, &DeleteParams::default()).await?;
        Ok(())
    });
}
