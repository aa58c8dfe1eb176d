//! Records the log of a test.

use std::cell::RefCell;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::mem;
use std::sync::Once;

use serde_json::Value;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::telemetry::json;

/// The log lines of one thread in both formats.
#[derive(Default)]
struct Lines {
    json: Vec<u8>,
    text: Vec<u8>,
}

thread_local! {
    static LINES: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

/// Records the log of the current thread at level *info* and above, until it is dropped.
///
/// It installs a global subscriber for the process, because a scoped subscriber can lose lines: tracing
/// caches whether an event is enabled, and if a thread without a subscriber reaches the event first, it is
/// disabled for all threads.
#[derive(Debug)]
pub struct Recording(PhantomData<*const ()>);

impl Recording {
    /// Starts a recording of this thread.
    ///
    /// # Panics
    /// If this thread already has a recording, or the process has another subscriber.
    #[must_use = "the recording ends when it is dropped"]
    pub fn start() -> Self {
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            let text =
                fmt::layer().with_ansi(false).without_time().with_writer(|| Sink(|lines| &mut lines.text));
            let json = json::json_layer(fmt::layer().with_writer(|| Sink(|lines| &mut lines.json)));
            tracing_subscriber::registry().with(LevelFilter::INFO).with(text).with(json).init();
            // Enables the events that other threads reached before the subscriber existed.
            tracing::callsite::rebuild_interest_cache();
        });
        let before = LINES.replace(Some(Lines::default()));
        assert!(before.is_none(), "this thread already has a recording");
        Self(PhantomData)
    }

    /// The lines since the last call as JSON objects, in the format of `--log-format=json`.
    ///
    /// # Panics
    /// If a line is not JSON.
    pub fn json(&self) -> Vec<Value> {
        let text = Self::take(|lines| &mut lines.json);
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// The lines since the last call as text, without colors and times.
    pub fn text(&self) -> String {
        Self::take(|lines| &mut lines.text)
    }

    fn take(of: impl FnOnce(&mut Lines) -> &mut Vec<u8>) -> String {
        let bytes = LINES.with_borrow_mut(|lines| lines.as_mut().map(|lines| mem::take(of(lines))));
        String::from_utf8(bytes.unwrap_or_default()).expect("logs are UTF-8")
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

struct Sink(fn(&mut Lines) -> &mut Vec<u8>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                (self.0)(lines).extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::Recording;

    fn log() {
        tracing::info!("reached");
    }

    #[test]
    fn an_event_that_another_thread_reached_first_is_recorded() {
        let recording = Recording::start();
        thread::scope(|scope| scope.spawn(log).join().unwrap());
        log();
        assert_eq!(recording.json().len(), 1);
        assert_eq!(recording.text().lines().count(), 1);
        assert_eq!(recording.json().len(), 0, "lines are returned once");
    }

    #[test]
    fn threads_have_separate_recordings() {
        let (ready, wait) = mpsc::channel();
        thread::scope(|scope| {
            let other = scope.spawn(move || {
                let recording = Recording::start();
                ready.send(()).unwrap();
                tracing::info!("there");
                recording.text()
            });
            let recording = Recording::start();
            wait.recv().unwrap();
            tracing::info!("here");
            assert!(other.join().unwrap().ends_with("there\n"));
            let text = recording.text();
            assert!(text.ends_with("here\n") && text.lines().count() == 1, "{text}");
        });
    }
}
