//! Runs the tests of a test target, and reports those that need a node as ignored on hosts that cannot run
//! one.
//!
//! The test framework of the standard library can only ignore tests at compile time. A target with
//! `harness = false` uses this runner instead, which accepts the same arguments and prints the same lines:
//!
//! ```no_run
//! use vmpool_test_cluster::{node_test, plain_test, test_runner};
//!
//! fn starts() {}
//! fn pods_are_served() {}
//!
//! fn main() -> std::process::ExitCode {
//!     test_runner::run_tests(vec![plain_test!(starts), node_test!(pods_are_served)])
//! }
//! ```
//!
//! ```text
//! test starts          ... ok
//! test pods_are_served ... ignored, a node cluster needs root
//! ```

use std::env;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Trial};

use crate::node;

#[cfg(test)]
mod tests;

/// The environment variable that turns ignored node tests into failures if it is `required`.
const VARIABLE: &str = "VMPOOL_NODE_TESTS";

/// Flags whose value is a separate argument.
const FLAGS_WITH_VALUES: [&str; 5] = ["--color", "--format", "--logfile", "--skip", "--test-threads"];

/// A test that the runner knows by name.
#[derive(Debug, Clone, Copy)]
pub struct Test {
    name: &'static str,
    body: fn(),
    needs_node: bool,
}

impl Test {
    /// A test that can run on any host. It fails by panicking.
    pub fn new(name: &'static str, body: fn()) -> Self {
        Self { name, body, needs_node: false }
    }

    /// A test that needs a node cluster.
    pub fn on_node(name: &'static str, body: fn()) -> Self {
        Self { name, body, needs_node: true }
    }
}

/// A [`Test`] with the path of its function as its name.
#[macro_export]
macro_rules! plain_test {
    ($body:path) => {
        $crate::test_runner::Test::new(stringify!($body), $body)
    };
}

/// A [`Test`] that needs a node, with the path of its function as its name.
#[macro_export]
macro_rules! node_test {
    ($body:path) => {
        $crate::test_runner::Test::on_node(stringify!($body), $body)
    };
}

/// Runs the tests that the arguments of the program select. `RUST_TEST_THREADS` applies as in the standard
/// framework.
///
/// On a host that cannot run a node cluster, tests that need one are reported as ignored, with the reason.
/// With `VMPOOL_NODE_TESTS=required` they fail instead, so that no test is ignored by mistake.
pub fn run_tests(tests: Vec<Test>) -> ExitCode {
    let (mut arguments, filters) = parse(env::args());
    let variable = env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    let threads = arguments.test_threads.or(variable);
    let one_at_a_time = (threads == Some(1)).then(Arc::default);
    // With a single thread, the framework prints the name of a test before its output, and the result after
    // it on the same line.
    arguments.test_threads = if one_at_a_time.is_some() { Some(2) } else { threads };
    let required = env::var(VARIABLE).is_ok_and(|value| value == "required");
    let selected = tests.into_iter().filter(|test| is_selected(test.name, &filters, arguments.exact));
    let trials = selected
        .map(|test| trial(test, required, node::missing_host_requirement, one_at_a_time.clone()))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The arguments without the filters, and the filters. The framework accepts only one filter, but the
/// standard one accepts any number.
fn parse(arguments: impl IntoIterator<Item = String>) -> (Arguments, Vec<String>) {
    let (mut flags, mut filters) = (Vec::new(), Vec::new());
    let mut arguments = arguments.into_iter();
    flags.extend(arguments.next());
    while let Some(argument) = arguments.next() {
        if !argument.starts_with('-') {
            filters.push(argument);
            continue;
        }
        let has_value = FLAGS_WITH_VALUES.contains(&argument.as_str());
        flags.push(argument);
        flags.extend(has_value.then(|| arguments.next()).flatten());
    }
    (Arguments::from_iter(flags), filters)
}

fn is_selected(name: &str, filters: &[String], exact: bool) -> bool {
    filters.is_empty()
        || filters.iter().any(|filter| if exact { name == filter } else { name.contains(filter.as_str()) })
}

/// The form of a test that the framework runs. `missing` returns what the host lacks for a node cluster.
fn trial(
    test: Test,
    required: bool,
    missing: impl FnOnce() -> Option<String> + Send + 'static,
    one_at_a_time: Option<Arc<Mutex<()>>>,
) -> Trial {
    Trial::ignorable_test(test.name, move || {
        // A test that failed has poisoned the lock, which does not matter for the next one.
        let _alone = one_at_a_time.as_ref().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        match test.needs_node.then(missing).flatten() {
            Some(reason) if required => Err(format!("{VARIABLE}=required, but {reason}").into()),
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => {
                (test.body)();
                Ok(Completion::Completed)
            }
        }
    })
}
