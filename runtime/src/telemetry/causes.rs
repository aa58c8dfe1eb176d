//! The text of an error together with its causes.

/// An error and its causes in one line, for example `writing the lease: connection refused`.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| {
        // The texts of some libraries already contain the cause.
        let cause = cause.to_string();
        if line.contains(&cause) { line } else { format!("{line}: {cause}") }
    })
}
