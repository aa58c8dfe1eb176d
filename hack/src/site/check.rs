//! The site in a real browser.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::browser::{BrowserTab, BrowserView, Chromium, ColorScheme, PageResponse, serve_pages};

/// Pages of all kinds: pictures, wide tables, long pages, code, a reference page.
const PAGES: [&str; 8] = [
    "index.html",
    "concepts.html",
    "quickstart.html",
    "comparison.html",
    "troubleshooting.html",
    "kubectl.html",
    "pools.html",
    "reference/virtualmachinepools.html",
];

/// Texts that users search for, and the beginning of the page that one of the first results must be on.
const SEARCHES: [(&str, &str); 3] =
    [("scale down", "Pools"), ("quota", "Troubleshooting"), ("claim", "Protection")];

const WIDE: BrowserView = BrowserView { width: 1280, height: 900, scheme: ColorScheme::Light };
const PHONE: BrowserView = BrowserView { width: 360, height: 760, scheme: ColorScheme::Light };

/// What a user of the site would notice. Screenshots go to `folder`.
///
/// # Errors
/// There is no browser, or it fails.
pub(super) fn find_browser_problems(book: &Path, folder: &Path) -> Result<Vec<String>> {
    let served = book.to_owned();
    let address = serve_pages(move |path| answer_page_request(&served, path))?;
    let mut browser = Chromium::start(folder)?;
    let mut tab = BrowserTab::open(&mut browser, WIDE)?;
    let mut problems = Vec::new();
    for page in PAGES {
        for (name, view) in [("wide", WIDE), ("phone", PHONE)] {
            tab.set_view(view)?;
            tab.load(&format!("http://{address}/{page}"))?;
            if tab.evaluate("document.documentElement.scrollWidth > innerWidth")? == true {
                problems.push(format!("{page}: the page is wider than the window ({name})"));
            }
            let file = page.trim_end_matches(".html").replace('/', "-");
            tab.write_screenshot(&folder.join(format!("{file}-{name}.png")))?;
        }
        problems.extend(tab.take_messages().into_iter().map(|message| format!("{page}: {message}")));
    }
    tab.set_view(BrowserView { scheme: ColorScheme::Dark, ..WIDE })?;
    tab.load(&format!("http://{address}/concepts.html"))?;
    tab.write_screenshot(&folder.join("concepts-dark.png"))?;
    if tab.evaluate(
        "getComputedStyle(document.body).colorScheme.includes('dark') \
                     || document.documentElement.classList.contains('navy')",
    )? != true
    {
        problems.push("the site is not dark for a user with dark colors".to_owned());
    }
    for (text, page) in SEARCHES {
        tab.load(&format!("http://{address}/index.html?search={}", text.replace(' ', "%20")))?;
        tab.wait_until("document.querySelectorAll('#mdbook-searchresults li').length > 0")?;
        let titles = tab.evaluate(
            "[...document.querySelectorAll('#mdbook-searchresults li')].slice(0, 10).map((item) => item.textContent)",
        )?;
        let is_found = |title: &str| title.starts_with(page);
        if !titles.as_array().into_iter().flatten().filter_map(Value::as_str).any(is_found) {
            problems.push(format!("the search for {text:?} does not find {page}: {titles}"));
        }
    }
    tab.write_screenshot(&folder.join("search.png"))?;
    problems.extend(tab.take_messages());
    Ok(problems)
}

/// A file of the site.
fn answer_page_request(book: &Path, path: &str) -> PageResponse {
    let path = path.split('?').next().unwrap_or_default().trim_start_matches('/');
    let Ok(body) = fs::read(book.join(path)) else { return PageResponse::not_found() };
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    let media_type = match extension.unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "text/plain; charset=utf-8",
    };
    PageResponse { status: "200 OK", media_type, policy: None, body }
}
