//! Finds programs that cargo has built next to the running test.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The path of a program: the value of `variable`, otherwise in the build directory of the running test.
///
/// # Errors
/// [`Error::MissingProgram`] if it does not exist, [`Error::StaleProgram`] if a source has changed since it
/// was built.
pub fn find_program(program: &'static str, variable: &'static str) -> Result<PathBuf> {
    let path = match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => profile_directory()?.join(program),
    };
    if !path.is_file() {
        return Err(Error::MissingProgram { program, path, variable });
    }
    match newer_source(&path) {
        Some(source) => Err(Error::StaleProgram { program, source_file: source }),
        None => Ok(path),
    }
}

/// A source of the program that changed after the program was built, if cargo has left the list of its
/// sources.
fn newer_source(program: &Path) -> Option<PathBuf> {
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let built = changed(program)?;
    let list = std::fs::read_to_string(program.with_added_extension("d")).ok()?;
    sources(&list).into_iter().find(|source| changed(source).is_some_and(|changed| changed > built))
}

/// The sources in a list as cargo writes it: `program: source source`, with spaces in names escaped.
fn sources(list: &str) -> Vec<PathBuf> {
    const SPACE: &str = "\\ ";
    let Some((_program, sources)) = list.split_once(": ") else { return Vec::new() };
    let sources = sources.trim_end().replace(SPACE, "\0");
    sources.split(' ').map(|source| PathBuf::from(source.replace('\0', " "))).collect()
}

/// `target/<profile>`. Test binaries are in its subdirectory `deps`, programs directly in it.
///
/// # Errors
/// [`Error::File`] if the system does not report the path of the running program.
pub fn profile_directory() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(Error::file("finding", "the running program"))?;
    let directory = own.parent().unwrap_or(Path::new("."));
    let is_deps = directory.file_name().is_some_and(|name| name == "deps");
    Ok(if is_deps { directory.parent().unwrap_or(directory) } else { directory }.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{File, write};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_program_is_stale_if_a_source_is_newer() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (program, old, new) = (path("program"), path("old source.rs"), path("new.rs"));
        for file in [&program, &old, &new] {
            write(file, "").unwrap();
        }
        assert_eq!(newer_source(&program), None, "without a list nothing is known");
        let escaped = old.display().to_string().replace(' ', "\\ ");
        write(path("program.d"), format!("{}: {escaped} {}\n", program.display(), new.display())).unwrap();
        let age = |file: &Path, seconds: u64| {
            let time = SystemTime::now() - Duration::from_secs(seconds);
            File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
        };
        age(&old, 30);
        age(&program, 20);
        age(&new, 25);
        assert_eq!(newer_source(&program), None);
        age(&new, 10);
        assert_eq!(newer_source(&program), Some(new.clone()));
        age(&new, 40);
        age(&old, 10);
        assert_eq!(newer_source(&program), Some(old));
    }
}
