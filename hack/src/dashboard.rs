//! Checks the page of `kubectl vmpool dashboard` in a real browser, and writes screenshots of it.
//!
//! It serves the page with sample data, because the server of the plugin has its own tests. The page then
//! needs no cluster. CI has no browser, so it does not run this.

mod sample_server;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use self::sample_server::SamplePage;
use crate::browser::{AccessibleElement, BrowserTab, BrowserView, Chromium, ColorScheme};
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
    view: BrowserView,
}

const SCREENSHOTS: [Screenshot; 4] = [
    Screenshot { file: "dashboard-light.png", view: wide_view(ColorScheme::Light) },
    Screenshot { file: "dashboard-dark.png", view: wide_view(ColorScheme::Dark) },
    Screenshot { file: "dashboard-phone-light.png", view: narrow_view(ColorScheme::Light) },
    Screenshot { file: "dashboard-phone-dark.png", view: narrow_view(ColorScheme::Dark) },
];

const fn wide_view(scheme: ColorScheme) -> BrowserView {
    BrowserView { width: 1100, height: 800, scheme }
}

const fn narrow_view(scheme: ColorScheme) -> BrowserView {
    BrowserView { width: 360, height: 760, scheme }
}

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

/// What a screen reader must get, as role and name.
const ACCESSIBLE: [(&str, &str); 8] = [
    ("heading", "vmpool dashboard"),
    ("searchbox", "Filter by name"),
    ("checkbox", "Only pools that need attention"),
    ("navigation", "4 pools, 3 need attention; 19 of 22 machines ready"),
    ("region", "web"),
    ("heading", "web-pccd4"),
    ("button", "Show the plan"),
    ("button", "Show all 17 machines"),
];

/// Roles of elements that a user operates. Each needs a name.
const OPERATED: [&str; 6] = ["button", "checkbox", "link", "searchbox", "spinbutton", "textbox"];

/// Counts texts whose contrast to their background is below 4.5, and names up to five.
const CONTRAST: &str = include_str!("dashboard/contrast.js");

/// Checks the page, and writes the screenshots.
///
/// # Errors
/// There is no browser, the page does not show the sample, a user of a keyboard or a screen reader cannot use
/// it, or the console of the browser has messages.
pub(crate) fn check_dashboard(workspace: &Workspace, options: &DashboardOptions) -> Result<()> {
    let folder = options.out.clone().unwrap_or_else(|| workspace.dashboard());
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let address = SamplePage::read(workspace.root())?.serve()?;
    let mut browser = Chromium::start(&workspace.dashboard())?;
    let mut tab = BrowserTab::open(&mut browser, wide_view(ColorScheme::Light))?;
    tab.load(&format!("http://{address}/"))?;
    tab.wait_until("document.documentElement.dataset.board === 'shown'")?;
    tab.wait_until("document.getElementById('connection').textContent === 'Live'")?;

    let mut problems = Vec::new();
    for Screenshot { file, view } in &SCREENSHOTS {
        let path = folder.join(file);
        tab.set_view(*view)?;
        tab.write_screenshot(&path)?;
        println!("{}", path.display());
        problems
            .extend(find_view_problems(&mut tab)?.into_iter().map(|problem| format!("{file}: {problem}")));
    }
    tab.set_view(wide_view(ColorScheme::Light))?;
    let document = tab.evaluate("document.documentElement.outerHTML")?;
    problems.extend(missing_texts(document.as_str().unwrap_or_default()));
    problems.extend(accessibility_problems(&tab.accessible_elements()?));
    problems.extend(find_keyboard_problems(&mut tab)?);
    problems.extend(tab.take_messages());
    if problems.is_empty() {
        println!("the page shows the sample, works with the keyboard, and writes nothing to the console");
        return Ok(());
    }
    for problem in &problems {
        eprintln!("  {problem}");
    }
    bail!("the dashboard has {} problems in the browser", problems.len())
}

/// What is wrong in the present size and color scheme.
fn find_view_problems(tab: &mut BrowserTab<'_>) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    if tab.evaluate("document.documentElement.scrollWidth > innerWidth")? == true {
        problems.push("the page is wider than the window".to_owned());
    }
    let faint = tab.evaluate(CONTRAST)?;
    problems.extend(faint.as_array().into_iter().flatten().map(|text| format!("low contrast: {text}")));
    Ok(problems)
}

/// Uses the page with the keyboard only: the link to the pools, and the filter.
fn find_keyboard_problems(tab: &mut BrowserTab<'_>) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut expect = |tab: &mut BrowserTab<'_>, expression: &str, what: &str| -> Result<()> {
        if tab.evaluate(expression)? != true {
            problems.push(format!("keyboard: {what}"));
        }
        Ok(())
    };
    tab.press("Tab")?;
    expect(tab, "document.activeElement.className === 'skip'", "the first key leads not to the skip link")?;
    tab.press("Enter")?;
    expect(tab, "document.activeElement.id === 'pools'", "the skip link leads not to the pools")?;
    tab.press("Tab")?;
    expect(
        tab,
        "document.activeElement.closest('#overview') !== null",
        "the pools begin not with the overview",
    )?;
    tab.press("Enter")?;
    expect(tab, "document.activeElement.tagName === 'H2'", "a link of the overview leads not to its pool")?;
    tab.evaluate("document.getElementById('filter').focus()")?;
    tab.type_text("runners")?;
    let only =
        "[...document.querySelectorAll('.pool h2')].map((title) => title.textContent).join() === 'runners'";
    expect(tab, only, "the filter does not select the pool")?;
    Ok(problems)
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

/// What a screen reader does not get.
fn accessibility_problems(elements: &[AccessibleElement]) -> Vec<String> {
    let has = |role: &str, name: &str| elements.iter().any(|known| known.role == role && known.name == name);
    let missing = ACCESSIBLE.iter().filter(|(role, name)| !has(role, name));
    let unnamed = elements.iter().filter(|known| OPERATED.contains(&&*known.role) && known.name.is_empty());
    missing
        .map(|(role, name)| format!("a screen reader gets no {role} {name:?}"))
        .chain(unnamed.map(|known| format!("a {} has no name for a screen reader", known.role)))
        .collect()
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

    #[test]
    fn missing_and_unnamed_elements_are_found() {
        let element =
            |(role, name): (&str, &str)| AccessibleElement { role: role.to_owned(), name: name.to_owned() };
        let mut elements: Vec<AccessibleElement> = ACCESSIBLE.map(element).into();
        assert_eq!(accessibility_problems(&elements), Vec::<String>::new());
        elements.push(element(("button", "")));
        assert_eq!(accessibility_problems(&elements).len(), 1);
        assert_eq!(accessibility_problems(&[]).len(), ACCESSIBLE.len());
    }
}
