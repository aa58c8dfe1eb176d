//! Whether the user has the usual rights.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use vmpool_platforms::{ApiObject, ClientPlatform, DiskOf, Disks, InstanceOf, Instances};

use super::finding::{CheckFinding, CheckVerdict};
use crate::cluster::UserClusterClient;

/// The subresources of the aggregated API, each of which needs the right to create it.
const SUBRESOURCES: [&str; 3] = ["scaledownwith", "claim", "release"];

/// The rights of the user in the namespace.
pub(super) async fn check_user_rights<P: ClientPlatform>(cluster: &UserClusterClient) -> CheckFinding {
    let check = format!("{} rights", P::TITLE);
    let mut missing = Vec::new();
    for right in usual_rights::<P>() {
        match right.is_granted(cluster).await {
            Ok(true) => {}
            Ok(false) => missing.push(right.to_string()),
            Err(error) => return CheckFinding::unknown(&check, "reviewing the rights", &error),
        }
    }
    let namespace = &cluster.namespace;
    if missing.is_empty() {
        let what = format!("all rights in namespace {namespace}");
        return CheckFinding::new(&check, CheckVerdict::Ok, what, "");
    }
    CheckFinding::new(
        &check,
        CheckVerdict::Warning,
        format!("in namespace {namespace} you may not {}", missing.join(", ")),
        "ask an administrator for the ClusterRole vmpool-editor and the platform's role for machines, if you need them",
    )
}

/// The rights that the commands of the plugin need.
fn usual_rights<P: ClientPlatform>() -> Vec<Right> {
    let mut wanted = vec![
        required_right::<P::Pool>("get", ""),
        required_right::<P::Pool>("list", ""),
        required_right::<P::Pool>("patch", ""),
        required_right::<P::Pool>("patch", "scale"),
        required_right::<P::Machine>("get", ""),
        required_right::<P::Machine>("list", ""),
    ];
    if P::Disks::EXIST {
        wanted.push(required_right::<DiskOf<P>>("list", ""));
    }
    if P::Instances::EXIST {
        wanted.push(required_right::<InstanceOf<P>>("list", ""));
    }
    wanted.extend(SUBRESOURCES.map(|subresource| Right {
        verb: "create",
        group: P::REMOVAL.group.into(),
        resource: P::REMOVAL.plural.into(),
        subresource,
    }));
    wanted.push(Right {
        verb: "list",
        group: "apps".into(),
        resource: "controllerrevisions".into(),
        subresource: "",
    });
    wanted
}

/// A right in the namespace.
struct Right {
    verb: &'static str,
    group: String,
    resource: String,
    subresource: &'static str,
}

fn required_right<K: ApiObject>(verb: &'static str, subresource: &'static str) -> Right {
    Right { verb, group: K::group(&()).into_owned(), resource: K::plural(&()).into_owned(), subresource }
}

impl Right {
    async fn is_granted(&self, cluster: &UserClusterClient) -> kube::Result<bool> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(cluster.namespace.clone()),
                    verb: Some(self.verb.to_owned()),
                    group: Some(self.group.clone()),
                    resource: Some(self.resource.clone()),
                    subresource: (!self.subresource.is_empty()).then(|| self.subresource.to_owned()),
                    ..ResourceAttributes::default()
                }),
                non_resource_attributes: None,
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}.{}", self.verb, self.resource, self.subresource, self.group)
    }
}

#[cfg(test)]
mod tests {
    use vmpool_platforms::{Dvp, KubeVirt};

    use super::*;

    #[test]
    fn the_rights_include_claim_and_release() {
        let dvp: Vec<String> = usual_rights::<Dvp>().iter().map(ToString::to_string).collect();
        for subresource in SUBRESOURCES {
            let right = format!("create virtualmachinepools/{subresource}.subresources.vmpool.dev");
            assert!(dvp.contains(&right), "{dvp:?}");
        }
        let kubevirt = usual_rights::<KubeVirt>();
        assert!(kubevirt.iter().any(|right| right.resource == "virtualmachineinstances"));
    }
}
