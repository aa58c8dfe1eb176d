//! Serves the dashboard's page with a sample of its data, to a browser on this computer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;

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

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SampleResponse {
    status: &'static str,
    media_type: &'static str,
    body: String,
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
    pub(super) fn respond(&self, path: &str) -> SampleResponse {
        let found =
            |media_type, body: &str| SampleResponse { status: "200 OK", media_type, body: body.to_owned() };
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
            _ => SampleResponse { status: "404 Not Found", media_type: "text/plain", body: String::new() },
        }
    }

    /// Serves the page until the process ends. Returns the address.
    ///
    /// # Errors
    /// The server cannot listen.
    pub(super) fn serve(self) -> Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening on 127.0.0.1")?;
        let address = listener.local_addr().context("reading the port")?;
        let page = Arc::new(self);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let page = Arc::clone(&page);
                // A browser opens connections before it needs them, so each has a thread.
                std::thread::spawn(move || page.answer(&stream));
            }
        });
        Ok(address)
    }

    /// Answers one request. A browser that closes the connection needs no answer.
    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream).lines();
        let Some(first) = lines.next().transpose()? else { return Ok(()) };
        for line in lines {
            if line?.is_empty() {
                break;
            }
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let SampleResponse { status, media_type, body } = self.respond(path);
        let policy = &self.policy;
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Security-Policy: {policy}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
        )
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
        let event = page().respond("/api/changes").body;
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let board: Value = serde_json::from_str(data).unwrap();
        assert_eq!(board["pools"].as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn other_paths_are_not_found() {
        assert_eq!(page().respond("/secret").status, "404 Not Found");
    }
}
