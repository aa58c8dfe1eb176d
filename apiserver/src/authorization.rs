//! Authorization by SubjectAccessReview, so that the authorizers of kube-apiserver decide.
//!
//! Decisions are cached for [`CACHE_TTL`], whether they allow or deny. This serves clients that repeat
//! requests, and a revoked permission still takes effect within seconds.

mod cache;

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use vmpool_runtime::Env;

use crate::authentication::AuthenticatedUser;
use crate::cluster::ClusterClient;
use crate::error::Error;
use crate::metrics::{ApiServerMetrics, CheckSource};
use crate::request_info::{RequestInfo, ResourceRequest};
use cache::{AuthorizationCache, AuthorizationKey};

/// How long a decision stays in the cache.
pub(crate) const CACHE_TTL: Duration = Duration::from_secs(5);
/// The maximum number of cached decisions.
pub(crate) const CACHE_SIZE: usize = 4096;

/// Checks the permissions of callers.
pub(crate) struct Authorizer {
    cluster: ClusterClient,
    env: Env,
    metrics: ApiServerMetrics,
    cache: AuthorizationCache,
}

impl Authorizer {
    pub(crate) fn new(cluster: ClusterClient, env: Env, metrics: ApiServerMetrics) -> Self {
        Self { cluster, env, metrics, cache: AuthorizationCache::new(CACHE_SIZE, CACHE_TTL) }
    }

    /// Checks whether the user has the permission for a request.
    ///
    /// # Errors
    /// [`Error::Forbidden`], and [`Error::Internal`] if the review failed.
    pub(crate) async fn authorize(
        &self,
        user: &AuthenticatedUser,
        request: &RequestInfo,
    ) -> Result<(), Error> {
        let key = AuthorizationKey { user: user.clone(), request: request.clone() };
        let cached = self.cache.get(&key, self.env.uptime());
        let denial = if let Some(denial) = cached {
            self.metrics.authorization(CheckSource::Cache);
            denial
        } else {
            self.metrics.authorization(CheckSource::Review);
            // The age of a decision counts from before the review.
            let reviewed_at = self.env.uptime();
            let denial = self.review(user, request).await?;
            self.cache.put(key, denial.clone(), reviewed_at);
            denial
        };
        match denial {
            None => Ok(()),
            Some(reason) => Err(Error::Forbidden(denial_message(user, request, &reason))),
        }
    }

    /// `None` if the request is allowed, otherwise the reason of the denial, which may be empty.
    async fn review(&self, user: &AuthenticatedUser, request: &RequestInfo) -> Result<Option<String>, Error> {
        let review =
            SubjectAccessReview { spec: access_review_spec(user, request), ..SubjectAccessReview::default() };
        let status = self.cluster.review(&review).await.map_err(|error| {
            tracing::warn!(%error, "creating a SubjectAccessReview failed");
            Error::Internal(format!("checking the permissions of user {:?}: {error}; try again", user.name))
        })?;
        // If no authorizer has an opinion, `allowed` and `denied` are both false, and the request is denied.
        Ok((!status.allowed || status.denied == Some(true)).then(|| status.reason.unwrap_or_default()))
    }
}

fn access_review_spec(user: &AuthenticatedUser, request: &RequestInfo) -> SubjectAccessReviewSpec {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (resource_attributes, non_resource_attributes) = match request {
        RequestInfo::NonResource { path, verb } => {
            (None, Some(NonResourceAttributes { path: Some(path.clone()), verb: Some(verb.clone()) }))
        }
        RequestInfo::Resource(ResourceRequest {
            group,
            version,
            namespace,
            resource,
            name,
            subresource,
            verb,
            has_more_segments: _,
        }) => {
            let attributes = ResourceAttributes {
                group: given(group),
                version: given(version),
                namespace: given(namespace),
                resource: given(resource),
                subresource: given(subresource),
                name: given(name),
                verb: given(verb),
                ..ResourceAttributes::default()
            };
            (Some(attributes), None)
        }
    };
    SubjectAccessReviewSpec {
        user: given(&user.name),
        uid: given(&user.uid),
        groups: Some(user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
        resource_attributes,
        non_resource_attributes,
    }
}

/// The message of a denial, in the format of kube-apiserver.
fn denial_message(user: &AuthenticatedUser, request: &RequestInfo, reason: &str) -> String {
    let name = &user.name;
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match request {
        RequestInfo::NonResource { path, verb } => {
            format!("forbidden: User {name:?} cannot {verb} path {path:?}{reason}")
        }
        RequestInfo::Resource(request) => {
            let ResourceRequest { group, namespace, resource, name: object_name, subresource, verb, .. } =
                request;
            let slash = if subresource.is_empty() { "" } else { "/" };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            format!(
                "{resource}.{group} {object_name:?} is forbidden: User {name:?} cannot {verb} resource \
                 \"{resource}{slash}{subresource}\" in API group {group:?} {place}{reason}"
            )
        }
    }
}

#[cfg(test)]
mod tests;
