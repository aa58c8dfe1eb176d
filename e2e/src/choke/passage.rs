//! One watch through the fault proxy: its lines, and how its view changes them.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::view::{Fate, View, Views, expired};

/// Maximum number of lines for a program that does not read.
const IN_FLIGHT: usize = 64;

/// The body of a watch response as the program receives it.
pub(super) fn through(body: Body, resource: &str, views: watch::Sender<Views>) -> Body {
    views.send_if_modified(|views| views.begins(resource));
    let (sender, mut receiver) = mpsc::channel(IN_FLIGHT);
    let changed = stream::unfold(views.subscribe(), async |mut views| {
        views.changed().await.ok().map(|()| (Step::Looked, views))
    });
    let lines = lines(body).map(Step::Line).chain(stream::once(async { Step::Ended }));
    let steps = stream::select(lines, changed.boxed());
    tokio::spawn(Passage::of(resource).run(steps.boxed(), views, sender));
    Body::from_stream(stream::poll_fn(move |context| receiver.poll_recv(context)))
}

/// An event that a passage handles.
enum Step {
    /// The API server sent a line.
    Line(Bytes),
    /// The API server ended the watch.
    Ended,
    /// The view may have changed.
    Looked,
}

/// The lines of a body. An incomplete line is dropped, and so is everything after a broken connection.
fn lines(body: Body) -> impl Stream<Item = Bytes> {
    let state = (body.into_data_stream(), Vec::new());
    stream::unfold(state, async |(mut data, mut rest): (_, Vec<u8>)| {
        loop {
            if let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                let tail = rest.split_off(end + 1);
                return Some((Bytes::from(rest), (data, tail)));
            }
            let more: Result<Bytes, _> = data.next().await?;
            rest.extend_from_slice(&more.ok()?);
        }
    })
}

/// Whether a line is an event other than a bookmark. The API server writes the type first, so the prefix is enough.
fn is_event(line: &[u8]) -> bool {
    ["ADDED", "MODIFIED", "DELETED"].iter().any(|kind| {
        let begin = format!("{{\"type\":\"{kind}\"");
        line.starts_with(begin.as_bytes())
    })
}

/// The state of one watch.
pub(super) struct Passage {
    resource: String,
    /// Lines that have not been delivered, and whether each is an event.
    waiting: VecDeque<(Bytes, bool)>,
    /// Whether the API server has ended the watch.
    ended: bool,
    /// Whether nothing is delivered anymore.
    forgotten: bool,
}

/// Whether the connection stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onward {
    Yes,
    No,
}

impl Passage {
    pub(super) fn of(resource: &str) -> Self {
        Self { resource: resource.to_owned(), waiting: VecDeque::new(), ended: false, forgotten: false }
    }

    async fn run(
        mut self,
        mut steps: stream::BoxStream<'static, Step>,
        views: watch::Sender<Views>,
        sender: mpsc::Sender<Result<Bytes, Infallible>>,
    ) {
        loop {
            let mut out = Vec::new();
            let onward = self.advance(&views, &mut out);
            for line in out {
                if sender.send(Ok(line)).await.is_err() {
                    return;
                }
            }
            if onward == Onward::No {
                return;
            }
            let step = tokio::select! {
                step = steps.next() => step,
                () = sender.closed() => return,
            };
            match step {
                Some(Step::Line(line)) => self.take(line),
                Some(Step::Ended) => self.end(),
                Some(Step::Looked) => {}
                None => return,
            }
        }
    }

    /// Adds a line from the API server.
    pub(super) fn take(&mut self, line: Bytes) {
        let event = is_event(&line);
        self.waiting.push_back((line, event));
    }

    /// Records that the API server has ended the watch.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Moves the lines that may be delivered to `out`.
    pub(super) fn advance(&mut self, views: &watch::Sender<Views>, out: &mut Vec<Bytes>) -> Onward {
        while !self.forgotten {
            let events = self.waiting.iter().filter(|(_, event)| *event).count();
            let mut fate = Fate::Held;
            // An event that passes does not change the view, so the other watches need no notification.
            views.send_if_modified(|views| {
                let is_bookmark = self.waiting.front().is_some_and(|(_, event)| !event);
                let passes =
                    is_bookmark && !matches!(views.of(&self.resource), View::Silent | View::Forgotten);
                fate = if passes { Fate::Arrives(1) } else { views.judge(&self.resource, events) };
                false
            });
            match fate {
                Fate::Arrives(times) => {
                    let Some((line, _)) = self.waiting.pop_front() else { break };
                    out.extend(std::iter::repeat_n(line, times));
                }
                Fate::Lost => drop(self.waiting.pop_front()),
                Fate::Closed => return Onward::No,
                Fate::Expired => {
                    let error = json!({ "type": "ERROR", "object": expired() });
                    out.push(Bytes::from(format!("{error}\n")));
                    return Onward::No;
                }
                Fate::Forgotten => self.forgotten = true,
                Fate::Held => break,
            }
        }
        // A silent connection does not show that the API server ended it. The next watch delivers the missing events.
        let silent = self.forgotten || views.borrow().of(&self.resource) == View::Silent;
        if self.ended && !silent { Onward::No } else { Onward::Yes }
    }
}
