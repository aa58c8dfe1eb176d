//! The platforms whose pools the account of the controller may list.
//!
//! With `--platforms=auto`, the controller does not know for which platforms it has rights. A platform without
//! them must not keep the leader from becoming ready.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use vmpool_kit::definitions::definition_name;
use vmpool_platforms::{Platform, with_platform};

use crate::leadership::LeadershipResources;
use crate::metrics::PlatformState;
use crate::platform_state::ShownState;
use crate::process::options::PlatformName;

/// The platforms that a leader reconciles, and the shown states of the others.
#[derive(Default)]
pub(super) struct PermittedPlatforms {
    /// The platforms to reconcile.
    pub(super) named: Vec<PlatformName>,
    /// The states of the others. They are shown until they are dropped.
    pub(super) forbidden: Vec<ShownState>,
}

/// Which of these platforms the leader reconciles. If the API server does not answer, a platform counts as
/// permitted: its watches then report what fails.
pub(super) async fn find_permitted_platforms(
    shared: &LeadershipResources,
    named: Vec<PlatformName>,
) -> PermittedPlatforms {
    if !shared.settings().skips_forbidden_platforms {
        return PermittedPlatforms { named, ..PermittedPlatforms::default() };
    }
    let mut permitted = PermittedPlatforms::default();
    for name in named {
        match with_platform!(name, P => show_if_forbidden::<P>(shared).await) {
            Some(shown) => permitted.forbidden.push(shown),
            None => permitted.named.push(name),
        }
    }
    permitted
}

/// The shown state of a platform whose pools the account may not list.
async fn show_if_forbidden<P: Platform>(shared: &LeadershipResources) -> Option<ShownState> {
    match may_list_pools::<P>(shared.client(), shared.namespace()).await {
        Ok(true) => return None,
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(platform = P::NAME, %error, "asking for the right to list pools failed");
            return None;
        }
    }
    let why = forbidden_text::<P>();
    tracing::warn!(platform = P::NAME, why, "this leader does not reconcile the pools of this platform");
    let shown = shared.show_state::<P>();
    shown.set(PlatformState::Forbidden, why);
    Some(shown)
}

/// What users read about a platform without rights.
fn forbidden_text<P: Platform>() -> String {
    format!(
        "the account of the controller may not list {}; set platforms.{platform}.enabled of the chart to auto or true, \
         which grants the rights, and restart the controller, or leave {platform} out of --platforms",
        definition_name::<P::Pool>(),
        platform = P::NAME,
    )
}

async fn may_list_pools<P: Platform>(client: &Client, namespace: Option<&str>) -> kube::Result<bool> {
    let attributes = ResourceAttributes {
        verb: Some("list".to_owned()),
        group: Some(P::Pool::group(&()).into_owned()),
        resource: Some(P::Pool::plural(&()).into_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    // A review without a status is no answer.
    Ok(answer.status.is_none_or(|status| status.allowed))
}

#[cfg(test)]
mod tests;
