//! Downloads the data of an image, and checks it.

use crate::kubevirt::Download;
use serde_json::Value;
use sha2::{Digest as _, Sha256, Sha512};
use std::fmt::Write as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The largest download. Tests need no more.
const LIMIT: u64 = 64 << 20;

/// Downloads, and returns the patch that records the result.
pub(super) async fn download_image_data(download: &Download) -> Value {
    let result = get(download).await.and_then(|data| verify(&data, download));
    download.record(result)
}

async fn get(download: &Download) -> Result<Vec<u8>, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(download.address).await?;
        // A server of HTTP/1.0 ends the response by closing the connection.
        let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", download.path, download.host);
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.take(LIMIT).read_to_end(&mut response).await?;
        Ok::<_, std::io::Error>(response)
    };
    let response =
        exchange.await.map_err(|error| format!("Unable to connect to http data source: {error}"))?;
    let end = response.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.ok_or("Unable to connect to http data source: malformed response")?;
    let head = String::from_utf8_lossy(&response[..end]);
    let status = head.lines().next().and_then(|line| line.split_once(' ')).map_or("", |(_, status)| status);
    if !status.starts_with("200") {
        return Err(format!(
            "Unable to connect to http data source: expected status code 200, got {}. Status: {status}",
            status.split(' ').next().unwrap_or_default(),
        ));
    }
    Ok(response[end + 4..].to_vec())
}

/// Checks the data against its checksum. Returns the SHA-256 of the data.
fn verify(data: &[u8], download: &Download) -> Result<String, String> {
    let path = std::path::Path::new(download.path.split('?').next().unwrap_or_default());
    if path.extension().is_some_and(|extension| extension == "qcow2") && !data.starts_with(b"QFI\xfb") {
        return Err("Unable to process data: the file is no qcow2 image".to_owned());
    }
    let sha256 = format!("sha256:{}", hex(&Sha256::digest(data)));
    let Some(wanted) = &download.checksum else { return Ok(sha256) };
    let found = match wanted.split_once(':').map(|(algorithm, _)| algorithm) {
        Some("sha256") => sha256.clone(),
        Some("sha512") => format!("sha512:{}", hex(&Sha512::digest(data))),
        _ => return Err(format!("the simulator computes sha256 and sha512, and not {wanted}")),
    };
    if found.eq_ignore_ascii_case(wanted) {
        Ok(sha256)
    } else {
        Err(format!("Unable to process data: checksum mismatch: expected {wanted}, got {found}"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
