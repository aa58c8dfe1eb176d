//! Lists the shared libraries of a program, as the dynamic linker finds them.

use std::path::Path;
use std::process::Command;

use crate::error::ImageError;

/// The absolute paths of all libraries and the dynamic linker; none for a static program.
///
/// # Errors
/// [`ImageError::Tool`] if one of them is not installed, [`ImageError::Start`] without `ldd`.
pub(crate) fn find_shared_libraries(program: &Path) -> Result<Vec<String>, ImageError> {
    let mut command = Command::new("ldd");
    // The output is parsed below, so it must not be localized.
    command.arg(program).env("LC_ALL", "C");
    let output = command.output().map_err(|source| ImageError::Start { program: "ldd", source })?;
    let failed = |stderr: String| ImageError::Tool {
        command: format!("ldd {}", program.display()),
        status: output.status,
        stderr,
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    // `ldd` fails for a static program, which is not an error here.
    if errors.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    if !output.status.success() {
        return Err(failed(errors.trim().to_owned()));
    }
    parse_ldd_output(&String::from_utf8_lossy(&output.stdout)).map_err(failed)
}

/// Parses the output of `ldd`: `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` for the linker itself.
///
/// # Errors
/// The line of a missing library.
pub(crate) fn parse_ldd_output(text: &str) -> Result<Vec<String>, String> {
    let mut libraries = Vec::new();
    for line in text.lines().map(str::trim) {
        let found = line.split_once("=> ").map_or(line, |(_name, found)| found);
        if found.starts_with("not found") {
            return Err(line.to_owned());
        }
        // linux-vdso, which the kernel provides, has no path.
        if found.starts_with('/') {
            libraries.push(found.split(" (").next().unwrap_or(found).to_owned());
        }
    }
    libraries.sort();
    libraries.dedup();
    Ok(libraries)
}
