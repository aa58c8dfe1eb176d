//! Who may do what: as the API server's own authorizers say, asked by SubjectAccessReview.
//!
//! Answers are remembered for [`REMEMBERED`], a yes as long as a no: long enough for a client that repeats itself, short
//! enough that a right which was taken away is gone before anybody looks for it.

mod cache;

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use vmpool_runtime::Env;

use crate::authentication::User;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::metrics::{CheckSource, Metrics};
use crate::target::{Object, Target};
use cache::Cache;

/// How long an answer is believed.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(5);
/// Most answers that are remembered.
pub(crate) const MOST_REMEMBERED: usize = 4096;

/// Asks whether callers may do what they ask for.
pub(crate) struct Authorizer {
    cluster: Cluster,
    env: Env,
    metrics: Metrics,
    cache: Cache,
}

impl Authorizer {
    pub(crate) fn new(cluster: Cluster, env: Env, metrics: Metrics) -> Self {
        Self { cluster, env, metrics, cache: Cache::new(MOST_REMEMBERED, REMEMBERED) }
    }

    /// Lets the caller pass, or says why not.
    ///
    /// # Errors
    /// [`Error::Forbidden`], and [`Error::Internal`] if nobody can be asked.
    pub(crate) async fn authorize(&self, user: &User, target: &Target) -> Result<(), Error> {
        let key = (user.clone(), target.clone());
        let known = self.cache.get(&key, self.env.uptime());
        let verdict = if let Some(verdict) = known {
            self.metrics.authorization(CheckSource::Cache);
            verdict
        } else {
            self.metrics.authorization(CheckSource::Review);
            // From before the question: an answer is as old as that.
            let asked = self.env.uptime();
            let verdict = self.review(user, target).await?;
            self.cache.put(key, verdict.clone(), asked);
            verdict
        };
        match verdict {
            None => Ok(()),
            Some(why) => Err(Error::Forbidden(forbidden(user, target, &why))),
        }
    }

    /// `None` is a yes; a no has a reason, which may be empty.
    async fn review(&self, user: &User, target: &Target) -> Result<Option<String>, Error> {
        let review = SubjectAccessReview { spec: spec(user, target), ..SubjectAccessReview::default() };
        let status = self.cluster.review(&review).await.map_err(|error| {
            tracing::warn!(%error, "asking for authorization failed");
            Error::Internal(format!("asking whether {:?} may do this: {error}", user.name))
        })?;
        // A server that knows none of its authorizers says neither; that is a no, too.
        Ok((!status.allowed || status.denied == Some(true)).then(|| status.reason.unwrap_or_default()))
    }
}

fn spec(user: &User, target: &Target) -> SubjectAccessReviewSpec {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (resource_attributes, non_resource_attributes) = match target {
        Target::Document { path, verb } => {
            (None, Some(NonResourceAttributes { path: Some(path.clone()), verb: Some(verb.clone()) }))
        }
        Target::Object(Object {
            group,
            version,
            namespace,
            resource,
            name,
            subresource,
            verb,
            beyond: _,
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

/// In the words of Kubernetes, which people look for.
fn forbidden(user: &User, target: &Target, why: &str) -> String {
    let name = &user.name;
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    match target {
        Target::Document { path, verb } => {
            format!("forbidden: User {name:?} cannot {verb} path {path:?}{why}")
        }
        Target::Object(object) => {
            let Object { group, namespace, resource, name: object_name, subresource, verb, .. } = object;
            let slash = if subresource.is_empty() { "" } else { "/" };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            format!(
                "{resource}.{group} {object_name:?} is forbidden: User {name:?} cannot {verb} resource \
                 \"{resource}{slash}{subresource}\" in API group {group:?} {place}{why}"
            )
        }
    }
}

#[cfg(test)]
mod tests;
