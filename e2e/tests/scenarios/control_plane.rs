//! The control plane for all other scenarios.

use std::time::Duration;

use anyhow::{Context, ensure};
use vmpool_test_cluster::control_plane::{
    AuditEntry, AuditMark, ControlPlane, ControlPlaneOptions, RestartMethod, by_user,
};
use vmpool_test_cluster::poll;

use crate::with_control_plane;

#[test]
fn the_control_plane_responds_counts_and_audits_requests() {
    with_control_plane(async |cluster| {
        // Given the shared control plane,
        ensure!(cluster.kubectl(&["get", "--raw", "/readyz"]).await? == "ok");
        // when a user writes an object,
        let mark = cluster.audit_mark();
        let before = cluster.metrics().await?;
        cluster.kubectl(&["create", "configmap", "counted"]).await?;
        // then the counters and the audit log contain the request, at most a moment after the response.
        let counted = poll::poll_until(
            || "the create is counted".to_owned(),
            Duration::from_secs(10),
            async || {
                let added = cluster.metrics().await?.since(&before);
                Ok(if added.of("POST", "configmaps") > 0 { Ok(()) } else { Err(added.to_string()) })
            },
        );
        counted.await?;
        let logged = poll::poll_until(
            || "the create is in the log".to_owned(),
            Duration::from_secs(10),
            async || {
                let (entries, next) = cluster.audit(mark)?;
                let created = |entry: &&AuditEntry| {
                    (entry.verb.as_str(), entry.resource.as_str(), entry.name.as_str())
                        == ("create", "configmaps", "counted")
                };
                let created = entries.iter().find(created).cloned();
                Ok(created.map(|created| (created, next)).ok_or_else(|| format!("{entries:#?}")))
            },
        );
        let (created, next) = logged.await?;
        ensure!((created.user.as_str(), created.code) == ("admin", 201), "{created}");
        ensure!(by_user(std::slice::from_ref(&created))["admin"]["create configmaps"] == 1);
        // A mark after an entry does not return the entry again.
        let (later, _) = cluster.audit(next)?;
        ensure!(!later.contains(&created));
        Ok(())
    });
}

#[test]
fn accounts_have_only_their_granted_permissions() {
    with_control_plane(async |cluster| {
        // Given an account without any role,
        let kubeconfig = cluster.service_account_kubeconfig("default", "default").await?;
        // when a client uses it,
        let flag = format!("--kubeconfig={}", kubeconfig.display());
        let answer = cluster.kubectl(&[&flag, "get", "virtualmachinepools"]).await;
        // then the API server authenticates it and refuses the request.
        let error = answer.err().context("the account may read pools")?.to_string();
        ensure!(
            error.contains("Forbidden") && error.contains("system:serviceaccount:default:default"),
            "{error}"
        );
        Ok(())
    });
}

#[test]
fn the_control_plane_survives_restarts_of_the_api_server_and_leaves_no_files() {
    with_control_plane(async |_shared| {
        // Given a separate control plane with a stored object,
        let cluster = ControlPlane::start(ControlPlaneOptions {
            name: "restarts".to_owned(),
            ..ControlPlaneOptions::default()
        })
        .await?;
        cluster.kubectl(&["create", "configmap", "kept"]).await?;
        // when the API server restarts, gracefully and after a kill,
        for how in [RestartMethod::Graceful, RestartMethod::Killed] {
            cluster.restart_api_server(how).await?;
            // then the object still exists,
            cluster.kubectl(&["get", "configmap", "kept"]).await?;
        }
        let (entries, _) = cluster.audit(AuditMark::default())?;
        ensure!(entries.iter().filter(|entry| entry.verb == "get" && entry.name == "kept").count() == 2);
        // and when everything is stopped, no file remains.
        let directory = cluster.directory().to_owned();
        cluster.stop().await?;
        ensure!(!directory.exists(), "{} still exists", directory.display());
        Ok(())
    });
}
