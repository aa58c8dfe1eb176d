//! HTTP requests to a child's endpoints on the loopback address.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Timeout of one request.
const DEADLINE: Duration = Duration::from_secs(2);

/// The status code and body of `GET path` on a loopback port.
///
/// # Errors
/// What failed: the connection, the transfer, or the response within two seconds.
pub async fn get_from_port(port: u16, path: &str) -> Result<(u16, String), String> {
    send_request(port, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")).await
}

/// As [`get_from_port`], with a bearer token.
///
/// # Errors
/// As [`get_from_port`].
pub async fn get_with_token(port: u16, path: &str, token: &str) -> Result<(u16, String), String> {
    let headers = format!("Host: localhost\r\nAuthorization: Bearer {token}");
    send_request(port, &format!("GET {path} HTTP/1.0\r\n{headers}\r\n\r\n")).await
}

/// The status code and body of `POST path` with a JSON body on a loopback port.
///
/// # Errors
/// As [`get_from_port`].
pub async fn post_to_port(port: u16, path: &str, body: &str) -> Result<(u16, String), String> {
    let headers =
        format!("Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
    send_request(port, &format!("POST {path} HTTP/1.0\r\n{headers}\r\n\r\n{body}")).await
}

async fn send_request(port: u16, request: &str) -> Result<(u16, String), String> {
    match tokio::time::timeout(DEADLINE, exchange(port, request)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_elapsed) => Err(format!("no response in {DEADLINE:?}")),
    }
}

/// HTTP/1.0, so that the response ends with the connection.
async fn exchange(port: u16, request: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let code = answer.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((code, body.to_owned()))
}
