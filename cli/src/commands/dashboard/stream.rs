//! The changes of the board as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use futures::stream;
use tokio::sync::watch;
use vmpool_runtime::Env;

use super::board::build_board;
use super::objects::WatchedObjects;

/// How long changes are collected before the page shows them.
const COLLECTION: Duration = Duration::from_millis(200);

/// How often the board is computed without a change, because protections end by time. It also shows whether
/// the browser is still connected.
const INTERVAL: Duration = Duration::from_secs(15);

/// The board at this time, as JSON in one line.
pub(super) fn render_board(watched: &mut watch::Receiver<WatchedObjects>, env: &Env) -> String {
    let board = build_board(&watched.borrow_and_update(), env.now());
    // The board has only texts, numbers and times, so it is always JSON.
    serde_json::to_string(&board).unwrap_or_default()
}

/// The body of a response that begins with the board, and continues with each change of it.
pub(super) fn stream_board(watched: watch::Receiver<WatchedObjects>, env: Env) -> Body {
    let follower = BoardFollower { watched, env, sent: None };
    Body::from_stream(stream::unfold(follower, |follower| async move {
        let (event, follower) = follower.next_event().await?;
        Some((Ok::<String, Infallible>(event), follower))
    }))
}

/// A browser, and what it has received.
struct BoardFollower {
    watched: watch::Receiver<WatchedObjects>,
    env: Env,
    sent: Option<String>,
}

impl BoardFollower {
    /// Waits for a change. `None` if the dashboard ends.
    async fn next_event(mut self) -> Option<(String, Self)> {
        if self.sent.is_some() {
            match self.env.timeout(INTERVAL, self.watched.changed()).await {
                Ok(Ok(())) => self.env.sleep(COLLECTION).await,
                Ok(Err(_)) => return None,
                Err(_) => {}
            }
        }
        let board = render_board(&mut self.watched, &self.env);
        let event = if self.sent.as_ref() == Some(&board) {
            // A comment, which the browser ignores.
            ":\n\n".to_owned()
        } else {
            format!("event: board\ndata: {board}\n\n")
        };
        self.sent = Some(board);
        Some((event, self))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use serde_json::json;

    use vmpool_platforms::PlatformName;

    use super::super::objects::WatchedKind;
    use super::*;

    #[tokio::test]
    async fn the_first_event_is_the_board_and_each_change_follows() {
        let (objects, watched) = watch::channel(WatchedObjects::default());
        let mut events = stream_board(watched, Env::system()).into_data_stream();
        let mut next = async || {
            let bytes = events.next().await.unwrap().unwrap();
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        let first = next().await;
        assert!(first.starts_with("event: board\ndata: {") && first.ends_with("}\n\n"), "{first}");
        assert!(first.contains("\"pools\":[]"), "{first}");
        objects.send_modify(|objects| {
            let pool = json!({
                "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
                "metadata": { "name": "web", "namespace": "a", "uid": "u", "generation": 1 },
                "spec": { "replicas": 1, "virtualMachineTemplate": { "spec": {} } },
            });
            objects.insert(WatchedKind::Pools(PlatformName::Dvp), pool);
        });
        assert!(next().await.contains("\"name\":\"web\""));
        objects.send_modify(|objects| objects.set_problem(WatchedKind::Events, Some("a\nb".to_owned())));
        let third = next().await;
        assert!(third.contains("a\\nb"), "an event is one line: {third}");
        assert_eq!(third.matches('\n').count(), 3, "{third}");
    }
}
