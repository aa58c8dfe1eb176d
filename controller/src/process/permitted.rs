//! The platforms whose pools the account of the controller may list.
//!
//! With `--platforms=auto`, the controller does not know for which platforms it has rights. A platform
//! without them must not keep the leader from becoming ready.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Resource};
use tokio_util::sync::CancellationToken;
use vmpool_kit::definitions::definition_name;
use vmpool_platforms::Platform;

use crate::leadership::LeadershipResources;
use crate::metrics::PlatformState;
use crate::platform_state::ShownState;

/// Time between two questions for the rights of a platform.
const PAUSE: Duration = Duration::from_mins(1);

/// As [`wait_until_permitted`], and shows meanwhile why the leader does not reconcile the pools.
pub(super) async fn wait_and_show_missing_right<P: Platform>(
    shared: &LeadershipResources,
    stop: &CancellationToken,
) -> bool {
    let mut shown = None;
    wait_until_permitted::<P>(shared, stop, || {
        shown.get_or_insert_with(|| show_forbidden_platform::<P>(shared));
    })
    .await
}

/// Waits until the account may list the pools of a platform, if the settings say so; false if `stop` came
/// first. Calls `forbidden` each time that it may not.
pub(super) async fn wait_until_permitted<P: Platform>(
    shared: &LeadershipResources,
    stop: &CancellationToken,
    mut forbidden: impl FnMut(),
) -> bool {
    while shared.settings().skips_forbidden_platforms && !is_permitted::<P>(shared).await {
        forbidden();
        let stopped = stop.cancelled().boxed();
        let Either::Left(_) = select(shared.env().sleep(PAUSE), stopped).await else { return false };
    }
    true
}

/// Whether the account may list the pools of a platform. If the API server does not answer, it counts as
/// permitted: the watches then report what fails.
async fn is_permitted<P: Platform>(shared: &LeadershipResources) -> bool {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(shared.client().clone());
    let review = review_of_listing::<P>(shared.namespace());
    match reviews.create(&PostParams::default(), &review).await {
        // A review without a status is no answer.
        Ok(answer) => answer.status.is_none_or(|status| status.allowed),
        Err(error) => {
            tracing::warn!(platform = P::NAME, %error, "asking for the right to list pools failed");
            true
        }
    }
}

/// The question whether the account may list the pools of a platform.
fn review_of_listing<P: Platform>(namespace: Option<&str>) -> SelfSubjectAccessReview {
    let attributes = ResourceAttributes {
        verb: Some("list".to_owned()),
        group: Some(P::Pool::group(&()).into_owned()),
        resource: Some(P::Pool::plural(&()).into_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}

/// Logs and shows that the leader does not reconcile the pools of a platform, until the result is dropped.
fn show_forbidden_platform<P: Platform>(shared: &LeadershipResources) -> ShownState {
    let why = describe_missing_right::<P>();
    tracing::warn!(platform = P::NAME, why, "this leader does not reconcile the pools of this platform");
    let shown = shared.show_state::<P>();
    shown.set(PlatformState::Forbidden, why);
    shown
}

/// What users read about a platform without rights.
fn describe_missing_right<P: Platform>() -> String {
    format!(
        "the account of the controller may not list {}; set platforms.{platform}.enabled of the chart to auto or true, \
         which grants the rights, or leave {platform} out of --platforms",
        definition_name::<P::Pool>(),
        platform = P::NAME,
    )
}

#[cfg(test)]
mod tests;
