//! One watch through the fault proxy: its lines, and how its fault changes them.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::watch_fault::{Delivery, WatchFault, WatchFaults, expired_watch_status};

/// Maximum number of lines for a program that does not read.
const IN_FLIGHT: usize = 64;

/// The body of a watch response as the program receives it.
pub(super) fn body_with_faults(body: Body, resource: &str, faults: watch::Sender<WatchFaults>) -> Body {
    faults.send_if_modified(|faults| faults.watch_started(resource));
    let (sender, mut watch) = mpsc::channel(IN_FLIGHT);
    let changed = stream::unfold(faults.subscribe(), async |mut faults| {
        faults.changed().await.ok().map(|()| (Step::FaultChanged, faults))
    });
    let lines = lines(body).map(Step::Line).chain(stream::once(async { Step::Ended }));
    let steps = stream::select(lines, changed.boxed());
    tokio::spawn(WatchStream::of(resource).run(steps.boxed(), faults, sender));
    Body::from_stream(stream::poll_fn(move |context| watch.poll_recv(context)))
}

/// An event that a passage handles.
enum Step {
    /// The API server sent a line.
    Line(Bytes),
    /// The API server ended the watch.
    Ended,
    /// The fault may have changed.
    FaultChanged,
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

/// Whether a line is an event other than a bookmark. The API server writes the type first, so the prefix is
/// enough.
fn is_event(line: &[u8]) -> bool {
    ["ADDED", "MODIFIED", "DELETED"].iter().any(|kind| {
        let begin = format!("{{\"type\":\"{kind}\"");
        line.starts_with(begin.as_bytes())
    })
}

/// The state of one watch.
pub(super) struct WatchStream {
    resource: String,
    /// Lines that have not been delivered, and whether each is an event.
    waiting: VecDeque<(Bytes, bool)>,
    /// Whether the API server has ended the watch.
    ended: bool,
    /// Whether nothing is delivered anymore.
    half_open: bool,
    /// Whether events were lost. The connection then ends with an error, also if another one of the resource
    /// got one.
    has_lost_events: bool,
}

/// Whether the connection stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    Open,
    Closed,
}

impl WatchStream {
    pub(super) fn of(resource: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            waiting: VecDeque::new(),
            ended: false,
            half_open: false,
            has_lost_events: false,
        }
    }

    async fn run(
        mut self,
        mut steps: stream::BoxStream<'static, Step>,
        faults: watch::Sender<WatchFaults>,
        sender: mpsc::Sender<Result<Bytes, Infallible>>,
    ) {
        loop {
            let mut out = Vec::new();
            let connection = self.advance(&faults, &mut out);
            for line in out {
                if sender.send(Ok(line)).await.is_err() {
                    return;
                }
            }
            if connection == ConnectionState::Closed {
                return;
            }
            let step = tokio::select! {
                step = steps.next() => step,
                () = sender.closed() => return,
            };
            match step {
                Some(Step::Line(line)) => self.push_line(line),
                Some(Step::Ended) => self.end(),
                Some(Step::FaultChanged) => {}
                None => return,
            }
        }
    }

    /// Adds a line from the API server.
    pub(super) fn push_line(&mut self, line: Bytes) {
        let event = is_event(&line);
        self.waiting.push_back((line, event));
    }

    /// Records that the API server has ended the watch.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Moves the lines that may be delivered to `out`.
    pub(super) fn advance(
        &mut self,
        faults: &watch::Sender<WatchFaults>,
        out: &mut Vec<Bytes>,
    ) -> ConnectionState {
        while !self.half_open {
            let events = self.waiting.iter().filter(|(_, event)| *event).count();
            let mut delivery = Delivery::Hold;
            // An event that passes does not change the fault, so the other watches need no notification. The
            // error does: other watches of the resource may have lost events, too.
            faults.send_if_modified(|faults| {
                let is_bookmark = self.waiting.front().is_some_and(|(_, event)| !event);
                let passes = is_bookmark
                    && !matches!(faults.of(&self.resource), WatchFault::Silent | WatchFault::HalfOpen);
                let must_expire = self.has_lost_events && faults.of(&self.resource) == WatchFault::Live;
                delivery = match () {
                    () if must_expire => Delivery::Expire,
                    () if passes => Delivery::Deliver(1),
                    () => faults.decide(&self.resource, events),
                };
                delivery == Delivery::Expire && !must_expire
            });
            match delivery {
                Delivery::Deliver(times) => {
                    let Some((line, _)) = self.waiting.pop_front() else { break };
                    out.extend(std::iter::repeat_n(line, times));
                }
                Delivery::Drop => {
                    self.waiting.pop_front();
                    self.has_lost_events = true;
                }
                Delivery::Close => return ConnectionState::Closed,
                Delivery::Expire => {
                    let error = json!({ "type": "ERROR", "object": expired_watch_status() });
                    out.push(Bytes::from(format!("{error}\n")));
                    return ConnectionState::Closed;
                }
                Delivery::HoldForever => self.half_open = true,
                Delivery::Hold => break,
            }
        }
        // A silent connection does not show that the API server ended it. The next watch delivers the missing
        // events.
        let silent = self.half_open || faults.borrow().of(&self.resource) == WatchFault::Silent;
        if self.ended && !silent { ConnectionState::Closed } else { ConnectionState::Open }
    }
}
