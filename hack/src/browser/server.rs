//! Serves pages to a browser on this computer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::{Context, Result};

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageResponse {
    pub(crate) status: &'static str,
    pub(crate) media_type: &'static str,
    /// The value of the header `Content-Security-Policy`, if there is one.
    pub(crate) policy: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl PageResponse {
    /// The response for a path without a page.
    pub(crate) fn not_found() -> Self {
        Self { status: "404 Not Found", media_type: "text/plain", policy: None, body: Vec::new() }
    }
}

/// Serves what `respond` returns for each path, until the process ends. Returns the address.
///
/// # Errors
/// The server cannot listen.
pub(crate) fn serve_pages(
    respond: impl Fn(&str) -> PageResponse + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening on 127.0.0.1")?;
    let address = listener.local_addr().context("reading the port")?;
    let respond = Arc::new(respond);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let respond = Arc::clone(&respond);
            // A browser opens connections before it needs them, so each has a thread.
            std::thread::spawn(move || answer_request(&stream, &*respond));
        }
    });
    Ok(address)
}

/// Answers one request. A browser that closes the connection needs no answer.
fn answer_request(stream: &TcpStream, respond: &impl Fn(&str) -> PageResponse) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let Some(first) = lines.next().transpose()? else { return Ok(()) };
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let PageResponse { status, media_type, policy, body } = respond(path);
    let policy = policy.map(|policy| format!("Content-Security-Policy: {policy}\r\n")).unwrap_or_default();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\n{policy}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_page_is_served_with_its_policy() {
        let address = serve_pages(|path| PageResponse {
            status: "200 OK",
            media_type: "text/plain",
            policy: Some("default-src 'none'".to_owned()),
            body: path.as_bytes().to_vec(),
        });
        let mut stream = TcpStream::connect(address.unwrap()).unwrap();
        stream.write_all(b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.contains("Content-Security-Policy: default-src 'none'\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\n/a?b"), "{response}");
    }
}
