//! What code under test logs.

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

/// The lines of one thread, in both formats.
#[derive(Default)]
struct Lines {
    json: Vec<u8>,
    text: Vec<u8>,
}

thread_local! {
    static LINES: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

/// Keeps what the current thread logs at level *info* and above, until it is dropped.
///
/// The subscriber behind it is the process's only one and stays. A scoped one loses lines: while it is the only
/// one there is, tracing asks the subscriber of the thread that reaches an event first whether the event matters,
/// and the answer of a thread without a subscriber, *never*, then holds for all threads.
#[derive(Debug)]
pub struct Recording(PhantomData<*const ()>);

impl Recording {
    /// Starts to keep the lines of this thread.
    ///
    /// # Panics
    /// If this thread has a recording already, or the process a subscriber of another kind.
    #[must_use = "nothing is kept once it is dropped"]
    pub fn start() -> Self {
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            let text =
                fmt::layer().with_ansi(false).without_time().with_writer(|| Sink(|lines| &mut lines.text));
            let json = json::layer(fmt::layer().with_writer(|| Sink(|lines| &mut lines.json)));
            tracing_subscriber::registry().with(LevelFilter::INFO).with(text).with(json).init();
            // Events that other threads reached before the line above were told *never*.
            tracing::callsite::rebuild_interest_cache();
        });
        let before = LINES.replace(Some(Lines::default()));
        assert!(before.is_none(), "this thread records already");
        Self(PhantomData)
    }

    /// The lines since the last call, as objects: what `--log-format=json` prints.
    ///
    /// # Panics
    /// If a line is not JSON.
    pub fn json(&self) -> Vec<Value> {
        let text = Self::taken(|lines| &mut lines.json);
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// The lines since the last call, as text without colours and times.
    pub fn text(&self) -> String {
        Self::taken(|lines| &mut lines.text)
    }

    fn taken(of: impl FnOnce(&mut Lines) -> &mut Vec<u8>) -> String {
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

    fn tell() {
        tracing::info!("reached");
    }

    #[test]
    fn an_event_that_another_thread_reached_first_is_kept() {
        let recording = Recording::start();
        thread::scope(|scope| scope.spawn(tell).join().unwrap());
        tell();
        assert_eq!(recording.json().len(), 1);
        assert_eq!(recording.text().lines().count(), 1);
        assert_eq!(recording.json().len(), 0, "lines are told once");
    }

    #[test]
    fn threads_record_apart() {
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
