//! A limit on lines in the log that users can cause with requests that are allowed.

use std::time::Duration;

use parking_lot::Mutex;

/// After this time, all lines are available again.
const WINDOW: Duration = Duration::from_mins(1);

/// Number of lines in that time.
const LINES: u32 = 60;

/// The lines that may still be written.
#[derive(Debug, Default)]
pub(crate) struct LineBudget(Mutex<UsedLines>);

#[derive(Debug, Default)]
struct UsedLines {
    /// Uptime of the first line of the window.
    since: Duration,
    written: u32,
    /// Number of lines that were omitted since the last one that was written.
    omitted: u64,
}

impl LineBudget {
    /// Takes one line. The result is the number of lines that were omitted before it; `None` if this one must
    /// be omitted, too.
    pub(crate) fn take_line(&self, uptime: Duration) -> Option<u64> {
        let mut used = self.0.lock();
        if uptime.saturating_sub(used.since) >= WINDOW {
            (used.since, used.written) = (uptime, 0);
        }
        if used.written >= LINES {
            used.omitted += 1;
            return None;
        }
        used.written += 1;
        Some(std::mem::take(&mut used.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_lines_of_each_window_are_written_and_the_others_are_counted() {
        let budget = LineBudget::default();
        for _ in 0..LINES {
            assert_eq!(budget.take_line(SECOND * 70), Some(0));
        }
        assert_eq!([budget.take_line(SECOND * 71), budget.take_line(SECOND * 129)], [None, None]);
        assert_eq!(budget.take_line(SECOND * 130), Some(2));
        assert_eq!(budget.take_line(SECOND * 131), Some(0));
    }
}
