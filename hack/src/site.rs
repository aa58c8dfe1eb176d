//! The documentation as a site, with mdBook: navigation, search and dark colors.
//!
//! CI does not build it, because it has no mdBook and no browser. CI checks what the site needs: the links in
//! the pages, that the table of contents has each page, and that quoted messages exist
//! (`hack/src/verify/book.rs`).

mod check;
mod links;
mod pages;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{Workspace, run_command};

/// The version of mdBook that is built. A newer one on `$PATH` works, too.
const VERSION: &str = "0.5.4";

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct SiteOptions {
    /// Also open the site in a Chromium from $CHROMIUM or $PATH: search, console, width of
    /// a phone, dark colors
    #[arg(long)]
    check: bool,
}

/// Builds the site in target/site/book.
///
/// # Errors
/// mdBook cannot be built or fails, a link leads nowhere, or the check in the browser fails.
pub(crate) fn build_site(workspace: &Workspace, options: &SiteOptions) -> Result<()> {
    let mdbook = find_or_build_mdbook(workspace)?;
    let site = workspace.site();
    if site.exists() {
        fs::remove_dir_all(&site).with_context(|| format!("deleting {}", site.display()))?;
    }
    let docs = workspace.path("docs");
    pages::copy_pages(&docs, &site.join("src"))?;
    for file in ["book.toml", "site.css"] {
        fs::copy(docs.join(file), site.join(file)).with_context(|| format!("copying {file}"))?;
    }
    run_command(Command::new(mdbook).arg("build").arg(&site))?;
    let book = site.join("book");
    refuse_problems(&links::find_broken_links(&book)?, "links lead nowhere")?;
    println!("{}", book.join("index.html").display());
    if options.check {
        refuse_problems(&check::find_browser_problems(&book, &site)?, "problems in the browser")?;
        println!("the site works in the browser");
    }
    Ok(())
}

fn refuse_problems(problems: &[String], verdict: &str) -> Result<()> {
    for problem in problems {
        eprintln!("  {problem}");
    }
    if problems.is_empty() { Ok(()) } else { bail!("{} {verdict}", problems.len()) }
}

/// The mdBook of `$PATH`, or the one in target/tools, which is built if it is missing.
fn find_or_build_mdbook(workspace: &Workspace) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let installed = env::split_paths(&path).map(|folder| folder.join("mdbook"));
    let root = workspace.tools().join("mdbook");
    let built = root.join("bin/mdbook");
    if let Some(found) = installed.chain([built.clone()]).find(|program| program.is_file()) {
        return Ok(found);
    }
    println!("building mdBook {VERSION}, which takes some minutes once");
    run_command(&mut install_command(workspace, &root))?;
    Ok(built)
}

fn install_command(workspace: &Workspace, root: &Path) -> Command {
    let mut command = workspace.cargo();
    command.args(["install", "mdbook", "--locked", "--version", VERSION]);
    // Without its server and its watcher.
    command.args(["--no-default-features", "--features", "search", "--root"]).arg(root);
    command
}
