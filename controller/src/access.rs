//! Whether a service account may use an object of another namespace.
//!
//! The controller may read all namespaces, and users choose what it reads. What it finds in another namespace
//! counts only if the account of the machine may clone it. Otherwise conditions and events would show users
//! what other namespaces contain.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;
use vmpool_platforms::{Permission, ReferencedObject};

/// The object that was read for a reference, if it may be used. One that may not be used counts as one that
/// does not exist. Both need a review, so that their durations do not differ either.
pub(crate) async fn only_permitted(
    client: &Client,
    reference: &ReferencedObject,
    object: Option<Value>,
) -> kube::Result<Option<Value>> {
    let Some(foreign) = &reference.cross_namespace else { return Ok(object) };
    let permission = foreign.cloning(reference, object.as_ref());
    let (namespace, account) = &foreign.account;
    let is_permitted = is_permitted(client, namespace, account, permission).await?;
    Ok(object.filter(|_| is_permitted))
}

async fn is_permitted(
    client: &Client,
    namespace: &str,
    account: &str,
    permission: Permission,
) -> kube::Result<bool> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{account}")),
            groups: Some(vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ]),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(permission.verb.to_owned()),
                group: Some(permission.group.to_owned()),
                resource: Some(permission.resource.to_owned()),
                subresource: Some(permission.subresource.to_owned()).filter(|name| !name.is_empty()),
                namespace: Some(permission.namespace),
                name: Some(permission.name),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    let SubjectAccessReviewStatus { allowed, denied, .. } = answer.status.unwrap_or_default();
    Ok(allowed && denied != Some(true))
}
