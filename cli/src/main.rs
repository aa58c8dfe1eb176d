//! The `kubectl-vmpool` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    vmpool_cli::main()
}
