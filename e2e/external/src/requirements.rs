//! What the scenarios require of a cluster.

use serde_json::Value;
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_installation::release::{API_SERVICES, WEBHOOK};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::error::{Error, Result};

use crate::Provider;

/// Checks that the cluster responds, and has the chart and the objects that pools of the scenarios need.
///
/// # Errors
/// [`Error::Unavailable`], on one line, for the first missing item.
pub(crate) async fn check_cluster_requirements(provider: Provider, access: &Access) -> Result<()> {
    let unavailable = |reason: String| Err(provider.unavailable(&reason));
    let context = access.kubectl(&["config", "current-context"]).await?;
    let context = context.trim();
    if let Err(error) = access.kubectl(&["version", "--output=json", "--request-timeout=10s"]).await {
        let reason = reason(&error);
        return unavailable(format!("the cluster of context {context} does not respond: {reason}"));
    }
    let own = API_SERVICES[0];
    let found = access.kubectl(&["get", "apiservice", own, "--ignore-not-found", "--output=json"]).await?;
    let service: Value = serde_json::from_str(&found).unwrap_or_default();
    let conditions = service.pointer("/status/conditions").and_then(Value::as_array);
    let available = conditions.into_iter().flatten().find(|condition| condition["type"] == "Available");
    if available.is_none_or(|available| available["status"] != "True") {
        return unavailable(format!("the APIService {own} is not available in context {context}"));
    }
    for (kind, name, what) in [
        ("validatingwebhookconfiguration", WEBHOOK, "the webhook of the chart"),
        ("virtualmachineclasses.virtualization.deckhouse.io", CLASS, "the class of the machines"),
        ("clustervirtualimages.virtualization.deckhouse.io", IMAGE, "the image of the disks"),
    ] {
        match access.kubectl(&["get", kind, name, "--ignore-not-found", "--output=name"]).await {
            Ok(found) if !found.trim().is_empty() => {}
            Ok(_none) => {
                return unavailable(format!("{kind}/{name}, {what}, does not exist in context {context}"));
            }
            Err(error) => {
                let reason = reason(&error);
                return unavailable(format!("{kind}/{name}, {what}, cannot be read: {reason}"));
            }
        }
    }
    tracing::info!(context, "the cluster meets the requirements");
    Ok(())
}

/// The last line of a tool's error output, or another error.
fn reason(error: &Error) -> String {
    match error {
        Error::Command { stderr, .. } => stderr.lines().last().unwrap_or_default().to_owned(),
        other => other.to_string(),
    }
}
