//! Lines that the programs of the playground print.

/// The prefix of log lines that `up` prints.
pub(crate) const PROGRESS: &str = "==> ";

/// `println!` that ignores a closed pipe, so that `make up | head` does not fail.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}
pub(crate) use say;
