//! The decoders of responses, for the fuzz targets.

use serde::de::DeserializeOwned;
use vmpool_kit::decode;
use vmpool_kit::list::Splitter;

/// Decodes an object in a response of the API server.
///
/// # Errors
/// The text is not the JSON of a `T`.
pub fn decode_object<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    decode::decode_json(text)
}

/// Splits a list that arrives in chunks of `size` bytes, and passes the text of every item to `visit`.
///
/// # Errors
/// The text around the items is not JSON.
pub fn split_list(text: &[u8], size: usize, mut visit: impl FnMut(&[u8])) -> serde_json::Result<()> {
    let mut splitter = Splitter::default();
    for chunk in text.chunks(size.max(1)) {
        splitter.feed(chunk, |item| {
            visit(item);
            serde_json::Result::Ok(())
        })?;
    }
    splitter.end().map(|_| ())
}
