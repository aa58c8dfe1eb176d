//! Serves the dashboard's page with a sample of its data, to a browser on this computer.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::browser::{PageResponse, serve_pages};

/// The folder of the page.
const PAGE: &str = "cli/src/commands/dashboard/page";

/// The page and its data.
#[derive(Clone, Debug)]
pub(super) struct SamplePage {
    html: String,
    style: String,
    elements: String,
    script: String,
    icon: String,
    policy: String,
    board: String,
}

impl SamplePage {
    /// Reads the page from the working tree.
    ///
    /// # Errors
    /// A file cannot be read, or the sample is no JSON.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let read = |file: &str| {
            let path = root.join(PAGE).join(file);
            std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        let board: Value = serde_json::from_str(include_str!("board.json")).context("reading the sample")?;
        Ok(Self {
            html: read("index.html")?,
            style: read("style.css")?,
            elements: read("elements.js")?,
            script: read("script.js")?,
            icon: read("icon.svg")?,
            policy: read("content-security-policy.txt")?.trim_end().to_owned(),
            board: board.to_string(),
        })
    }

    /// The response to a request for this path.
    pub(super) fn respond(&self, path: &str) -> PageResponse {
        let found = |media_type, body: &str| PageResponse {
            status: "200 OK",
            media_type,
            policy: Some(self.policy.clone()),
            body: body.as_bytes().to_vec(),
        };
        match path {
            "/" => found("text/html; charset=utf-8", &self.html),
            "/style.css" => found("text/css; charset=utf-8", &self.style),
            "/elements.js" => found("text/javascript; charset=utf-8", &self.elements),
            "/script.js" => found("text/javascript; charset=utf-8", &self.script),
            "/icon.svg" => found("image/svg+xml", &self.icon),
            // The stream ends, and the browser does not connect again.
            "/api/changes" => {
                found("text/event-stream", &format!("retry: 3600000\nevent: board\ndata: {}\n\n", self.board))
            }
            _ => PageResponse::not_found(),
        }
    }

    /// Serves the page until the process ends. Returns the address.
    ///
    /// # Errors
    /// The server cannot listen.
    pub(super) fn serve(self) -> Result<SocketAddr> {
        serve_pages(move |path| self.respond(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn page() -> SamplePage {
        SamplePage::read(Workspace::locate().unwrap().root()).unwrap()
    }

    #[test]
    fn the_board_is_one_event_in_one_line() {
        let event = String::from_utf8(page().respond("/api/changes").body).unwrap();
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let board: Value = serde_json::from_str(data).unwrap();
        assert_eq!(board["pools"].as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn other_paths_are_not_found() {
        assert_eq!(page().respond("/secret").status, "404 Not Found");
    }
}
