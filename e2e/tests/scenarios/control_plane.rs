//! The control plane that all other scenarios stand on.

use std::time::Duration;

use anyhow::{Context, ensure};
use vmpool_e2e::cluster::{AuditEntry, AuditMark, Cluster, Options, Restart, by_user};
use vmpool_e2e::poll;

use crate::with_control_plane;

#[test]
fn answers_and_counts_what_it_is_asked() {
    with_control_plane(async |cluster| {
        // Given the shared control plane,
        ensure!(cluster.kubectl(&["get", "--raw", "/readyz"]).await? == "ok");
        // when a user writes something,
        let mark = cluster.audit_mark();
        let before = cluster.metrics().await?;
        cluster.kubectl(&["create", "configmap", "counted"]).await?;
        // then its own counters and its audit log say so, a moment after the answer at the latest.
        let counted = poll::until(
            || "the create is counted".to_owned(),
            Duration::from_secs(10),
            async || {
                let added = cluster.metrics().await?.since(&before);
                Ok(if added.of("POST", "configmaps") > 0 { Ok(()) } else { Err(added.to_string()) })
            },
        );
        counted.await?;
        let logged = poll::until(
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
        // A mark behind an entry does not show it again.
        let (later, _) = cluster.audit(next)?;
        ensure!(!later.contains(&created));
        Ok(())
    });
}

#[test]
fn gives_accounts_no_more_than_they_were_granted() {
    with_control_plane(async |cluster| {
        // Given an account without any role,
        let kubeconfig = cluster.service_account_kubeconfig("default", "default").await?;
        // when it is used,
        let flag = format!("--kubeconfig={}", kubeconfig.display());
        let answer = cluster.kubectl(&[&flag, "get", "virtualmachinepools"]).await;
        // then the API server knows it and refuses.
        let error = answer.err().context("it may read pools")?.to_string();
        ensure!(
            error.contains("Forbidden") && error.contains("system:serviceaccount:default:default"),
            "{error}"
        );
        Ok(())
    });
}

#[test]
fn survives_restarts_of_the_api_server_and_leaves_nothing() {
    with_control_plane(async |_shared| {
        // Given a control plane of its own with something stored,
        let cluster = Cluster::start(Options { name: "restarts".to_owned(), ..Options::default() }).await?;
        cluster.kubectl(&["create", "configmap", "kept"]).await?;
        // when the API server is restarted, gently and not,
        for how in [Restart::Graceful, Restart::Killed] {
            cluster.restart_api_server(how).await?;
            // then what was stored is there,
            cluster.kubectl(&["get", "configmap", "kept"]).await?;
        }
        let (entries, _) = cluster.audit(AuditMark::default())?;
        ensure!(entries.iter().filter(|entry| entry.verb == "get" && entry.name == "kept").count() == 2);
        // and when everything is stopped, no file stays.
        let directory = cluster.directory().to_owned();
        cluster.stop().await?;
        ensure!(!directory.exists(), "{} is still there", directory.display());
        Ok(())
    });
}
