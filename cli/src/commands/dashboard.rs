//! `dashboard`: a web page with pools, machines, events and plans, for the browser of this computer only.
//!
//! ```text
//!  API server ──one watch for each kind──> objects ──> board ──server-sent events──> page
//!                                                      plans <── number of replicas ──┘
//! ```
//!
//! Every request to the cluster uses the rights of the user. The page changes nothing: it shows the command
//! for a change instead. A page that could write would give the rights of the user to every program that gets
//! the cookie, and the changes would not be in the history of a shell.

mod board;
mod browser;
mod follow;
mod objects;
mod page_files;
mod plans;
mod router;
mod session;
mod stream;
mod view;

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::future::join_all;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use vmpool_platforms::PlatformName;

use self::browser::open_browser;
use self::follow::{follow_kind, followed_kinds};
use self::objects::WatchedObjects;
use self::plans::answer_plan_orders;
use self::router::{DashboardState, dashboard_router};
use self::session::DashboardSession;
use crate::arguments::DashboardArguments;
use crate::cluster::UserClusterClient;
use crate::output::print_text;
use crate::visible::escape_to_one_line;

/// The number of plans that can wait.
const WAITING_PLANS: usize = 4;

/// Serves the page until the user interrupts the command.
///
/// # Errors
/// The port is in use, or the output cannot be written.
pub(crate) async fn serve_dashboard(
    cluster: &UserClusterClient,
    platform: Option<PlatformName>,
    arguments: &DashboardArguments,
) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).await;
    let listener = listener.with_context(|| format!("listening on port {} of 127.0.0.1", arguments.port))?;
    let port = listener.local_addr().context("reading the port of the dashboard")?.port();
    let session = DashboardSession::new(&cluster.env, port);
    let address = session.address();
    let (objects, watched) = watch::channel(WatchedObjects::default());
    let (plans, orders) = mpsc::channel(WAITING_PLANS);
    let state = DashboardState { session, watched, plans, env: cluster.env.clone() };
    let namespace = (!arguments.all_namespaces).then_some(&*cluster.namespace);
    let kinds = followed_kinds(platform, namespace);
    print_text(&describe_start(namespace, &address))?;
    if !arguments.no_open {
        open_browser(&address);
    }
    let serving = axum::serve(listener, dashboard_router(Arc::new(state))).into_future();
    tokio::select! {
        served = serving => served.context("serving the dashboard"),
        _ = join_all(kinds.iter().map(|kind| follow_kind(cluster, kind, &objects))) => Ok(()),
        () = Box::pin(answer_plan_orders(cluster, orders)) => Ok(()),
        stopped = tokio::signal::ctrl_c() => stopped.context("waiting for the end of the dashboard"),
    }
}

fn describe_start(namespace: Option<&str>, address: &str) -> String {
    let scope = match namespace {
        Some(namespace) => format!("namespace {}", escape_to_one_line(namespace)),
        None => "all namespaces".to_owned(),
    };
    format!("Dashboard of {scope}, until Ctrl-C. This address works once:\n{address}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_has_a_line_of_its_own() {
        let text = describe_start(Some("team-a"), "http://127.0.0.1:4000/?token=ab");
        assert_eq!(text.lines().last(), Some("http://127.0.0.1:4000/?token=ab"));
        assert!(text.contains("namespace team-a"), "{text}");
        assert!(describe_start(None, "").contains("all namespaces"));
    }
}
