//! GET requests to a program on this computer.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How long a program may take to respond.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A port that no program uses now.
///
/// # Errors
/// The error of the system.
pub(super) fn find_free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(listener.local_addr().context("finding a free port")?.port())
}

/// The JSON of a response.
///
/// # Errors
/// The program does not respond, or responds with something else than JSON.
pub(super) fn get_json(port: u16, target: &str) -> Result<Value> {
    let doing = || format!("GET http://127.0.0.1:{port}{target}");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).with_context(doing)?;
    stream.set_read_timeout(Some(TIMEOUT)).with_context(doing)?;
    // With HTTP/1.0, the body is not chunked, and ends with the connection.
    write!(stream, "GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n").with_context(doing)?;
    let mut response = String::new();
    stream.read_to_string(&mut response).with_context(doing)?;
    let Some((_, body)) = response.split_once("\r\n\r\n") else {
        bail!("{}: the response has no body", doing());
    };
    serde_json::from_str(body).with_context(doing)
}

/// Encodes a value of a query.
pub(super) fn encode_value(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::encode_value;

    #[test]
    fn a_query_has_no_character_with_a_meaning_in_urls() {
        assert_eq!(encode_value("sum(a{b=\"c\"})"), "sum%28a%7Bb%3D%22c%22%7D%29");
    }
}
