//! The exit codes of the program. They are stable.
//!
//! ```text
//!  0  the command succeeded
//!  1  an error
//!  2  the command line is invalid
//!  3  `claim` found no free machine
//! ```

use std::fmt;
use std::process::ExitCode;

/// The exit code of an error.
const ERROR: u8 = 1;

/// The exit code of [`NoMachineFree`].
const NO_MACHINE_FREE: u8 = 3;

/// No machine of the pool is free, and none became free in time. A caller can try again later, in contrast to
/// after an error.
#[derive(Clone, Debug)]
pub(crate) struct NoMachineFree {
    /// What failed, and why.
    pub(crate) message: String,
}

impl fmt::Display for NoMachineFree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NoMachineFree {}

/// The exit code of the program after this error.
pub(crate) fn exit_code_of(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(code_number(error))
}

fn code_number(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<NoMachineFree>().is_some() { NO_MACHINE_FREE } else { ERROR }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn no_free_machine_differs_from_an_error() {
        let busy = anyhow::Error::new(NoMachineFree { message: "pool web: no machine is free".into() });
        assert_eq!(busy.to_string(), "pool web: no machine is free");
        assert_eq!(code_number(&busy), 3);
        assert_eq!(code_number(&busy.context("claiming")), 3);
        assert_eq!(code_number(&anyhow!("no machine is free")), 1);
    }

    #[test]
    fn every_exit_code_is_documented() {
        let page = include_str!("../../docs/kubectl.md");
        for code in [0, ERROR, 2, NO_MACHINE_FREE] {
            assert!(page.contains(&format!("| {code} |")), "exit code {code} has no row");
        }
    }
}
