//! Checks the page of `kubectl vmpool dashboard` in a real browser, and writes screenshots of it.
//!
//! It serves the page with sample data, because the server of the plugin has its own tests. The page then
//! needs no cluster. CI has no browser, so it does not run this.

mod chromium;
mod sample_server;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::chromium::{Chromium, console_messages};
use self::sample_server::{ColorScheme, SamplePage};
use crate::workspace::Workspace;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct DashboardOptions {
    /// The folder of the screenshots; target/dashboard by default. Use docs/images for the documentation
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A screenshot.
struct Screenshot {
    file: &'static str,
    scheme: ColorScheme,
    size: &'static str,
}

const SCREENSHOTS: [Screenshot; 4] = [
    Screenshot { file: "dashboard-light.png", scheme: ColorScheme::Light, size: "1280,1400" },
    Screenshot { file: "dashboard-dark.png", scheme: ColorScheme::Dark, size: "1280,1400" },
    Screenshot { file: "dashboard-phone-light.png", scheme: ColorScheme::Light, size: "390,1600" },
    Screenshot { file: "dashboard-phone-dark.png", scheme: ColorScheme::Dark, size: "390,1600" },
];

/// Texts of the sample that the page must show. The names and messages of a cluster can contain markup, which
/// stays text.
const SHOWN: [&str; 6] = [
    "data-board=\"shown\"",
    "web-pccd4",
    "runners",
    "Live",
    "&lt;img src=x onerror=alert(1)&gt;",
    "&lt;b&gt;quota&lt;/b&gt;",
];

/// Checks the page, and writes the screenshots.
///
/// # Errors
/// There is no browser, the page does not show the sample, or the console of the browser has messages.
pub(crate) fn check_dashboard(workspace: &Workspace, options: &DashboardOptions) -> Result<()> {
    let browser = Chromium::find(&workspace.dashboard())?;
    let folder = options.out.clone().unwrap_or_else(|| workspace.dashboard());
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    // The browser resolves paths against a folder of its own.
    let folder = folder.canonicalize().with_context(|| format!("finding {}", folder.display()))?;
    let mut problems = Vec::new();
    for Screenshot { file, scheme, size } in &SCREENSHOTS {
        let address = SamplePage::read(workspace.root(), *scheme)?.serve()?;
        let path = folder.join(file);
        if path.exists() {
            std::fs::remove_file(&path).with_context(|| format!("deleting {}", path.display()))?;
        }
        let arguments = screenshot_arguments(&path, size, address);
        let messages = browser.run(&arguments)?.log;
        problems.extend(console_messages(&messages).iter().map(|message| format!("{file}: {message}")));
        if path.is_file() {
            println!("{}", path.display());
        } else {
            problems.push(format!("{file}: the browser wrote no screenshot"));
        }
    }
    let address = SamplePage::read(workspace.root(), ColorScheme::Light)?.serve()?;
    let page = browser.run(&["--dump-dom".to_owned(), format!("http://{address}/")])?;
    problems.extend(console_messages(&page.log).iter().map(ToString::to_string));
    problems.extend(missing_texts(&page.output));
    if problems.is_empty() {
        println!("the page shows the sample, and the console has no messages");
        return Ok(());
    }
    for problem in &problems {
        eprintln!("  {problem}");
    }
    bail!("the dashboard has {} problems in the browser", problems.len())
}

fn screenshot_arguments(path: &Path, size: &str, address: SocketAddr) -> Vec<String> {
    vec![
        format!("--screenshot={}", path.display()),
        format!("--window-size={size}"),
        format!("http://{address}/"),
    ]
}

/// What the document lacks, or has as markup.
fn missing_texts(document: &str) -> Vec<String> {
    let missing = SHOWN.iter().filter(|text| !document.contains(**text));
    let mut problems: Vec<String> = missing.map(|text| format!("the page does not show {text}")).collect();
    if document.contains("<img") {
        problems.push("the page contains markup of the sample".to_owned());
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_with_markup_of_the_cluster_is_refused() {
        let complete = SHOWN.concat();
        assert_eq!(missing_texts(&complete), Vec::<String>::new());
        assert_eq!(missing_texts(&format!("{complete}<img src=x>")).len(), 1);
        assert_eq!(missing_texts("<html data-board=\"shown\">").len(), SHOWN.len() - 1);
    }
}
