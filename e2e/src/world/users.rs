//! Users with selected permissions.

use kube::Client;
use serde_json::{Value, json};
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::apply_manifests;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::poll;

use super::state::{DEADLINE, ScenarioWorld};

const RBAC: &str = "rbac.authorization.k8s.io";

impl ScenarioWorld {
    /// A client of a user with these roles in the scenario's namespace, such as `edit`. Waits until the roles
    /// are in effect.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`] if the roles grant nothing for pools.
    pub async fn user(&self, name: &str, cluster_roles: &[&str]) -> Result<Client> {
        let bindings = cluster_roles.iter().map(|role| {
            let role = json!({ "apiGroup": RBAC, "kind": "ClusterRole", "name": role });
            (format!("{name}-{}", role["name"].as_str().unwrap_or_default()), role)
        });
        self.bound_user(name, bindings.collect(), Vec::new()).await
    }

    /// A client of a user with exactly these permissions (rules of a Role) in the scenario's namespace.
    ///
    /// # Errors
    /// As [`ScenarioWorld::user`].
    pub async fn user_with(&self, name: &str, rules: Value) -> Result<Client> {
        let role = json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": { "name": name }, "rules": rules });
        let reference = json!({ "apiGroup": RBAC, "kind": "Role", "name": name });
        self.bound_user(name, vec![(name.to_owned(), reference)], vec![role]).await
    }

    /// The user name of such a user.
    pub fn user_name(&self, name: &str) -> String {
        format!("system:serviceaccount:{}:{name}", self.namespace())
    }

    async fn bound_user(
        &self,
        name: &str,
        roles: Vec<(String, Value)>,
        mut objects: Vec<Value>,
    ) -> Result<Client> {
        let is_nobody = roles.is_empty();
        objects.push(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } }));
        objects.extend(roles.into_iter().map(|(binding, role)| {
            let subject = json!({ "kind": "ServiceAccount", "name": name, "namespace": self.namespace() });
            json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "RoleBinding",
                "metadata": { "name": binding },
                "roleRef": role,
                "subjects": [subject],
            })
        }));
        apply_manifests(&self.client(), &objects, Some(self.namespace())).await?;
        let client = self.cluster().service_account_client(self.namespace(), name).await?;
        if !is_nobody {
            self.until_in_effect(name, &client).await?;
        }
        Ok(client)
    }

    /// Waits until the API server's watch has observed the roles.
    async fn until_in_effect(&self, name: &str, client: &Client) -> Result<()> {
        let pools = self.platform.resource(TestedKind::Pool);
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": { "namespace": self.namespace() },
        });
        poll::poll_until(
            || format!("{name} has a permission for pools"),
            DEADLINE,
            async || {
                let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
                let answer = super::removal::post_json(client, path, &review).await;
                let rules = answer.body.pointer("/status/resourceRules").and_then(Value::as_array);
                let knows_pools = rules.into_iter().flatten().any(|rule| {
                    let groups = rule["apiGroups"].as_array().into_iter().flatten();
                    groups
                        .filter_map(Value::as_str)
                        .any(|group| group == pools.group || group == "*" || group.contains("subresources."))
                });
                Ok::<_, Error>(if knows_pools { Ok(()) } else { Err(answer.to_string()) })
            },
        )
        .await
    }

    /// Whether a user has a permission for a resource (`virtualmachinepools`, `virtualmachinepools/scale`) of
    /// a group.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if the API server's response contains no decision.
    pub async fn may(&self, user: &str, verb: &str, group: &str, resource: &str) -> Result<bool> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let groups = ["system:serviceaccounts", "system:authenticated"];
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "groups": groups,
                "resourceAttributes": {
                    "namespace": self.namespace(), "verb": verb, "group": group, "resource": resource,
                    "subresource": subresource,
                },
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = super::removal::post_json(&self.client(), path, &review).await;
        answer.body.pointer("/status/allowed").and_then(Value::as_bool).ok_or_else(|| Error::Unexpected {
            what: format!("the API server decides whether {user} may {verb} {resource}"),
            last: answer.to_string(),
        })
    }
}
