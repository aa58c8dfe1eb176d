//! Lists that are read as a stream, so that only one object of a page is in memory at a time. Users can store
//! objects of 1.5 MiB, and a page has 500 objects.

use futures::AsyncBufReadExt;
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{decode, rejection};

/// Number of objects in one page of a list.
pub const PAGE: u32 = 500;

/// The metadata of a page of a list.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListPage {
    /// The token of the next page; empty on the last page.
    #[serde(rename = "continue")]
    pub next: String,
    /// The version of the list.
    pub resource_version: String,
}

/// Sends `request`, and passes every object of the page to `visit` in order.
///
/// # Errors
/// The request failed, or the response is no list of `T`.
pub async fn read_list_page<T: DeserializeOwned>(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    mut visit: impl FnMut(T),
) -> kube::Result<ListPage> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    let mut body = std::pin::pin!(rejection::send_read(client, request).await?);
    let mut splitter = Splitter::default();
    loop {
        let chunk = body.fill_buf().await.map_err(kube::Error::ReadEvents)?;
        if chunk.is_empty() {
            break;
        }
        splitter
            .feed(chunk, |item| decode::decode_json(item).map(&mut visit))
            .map_err(kube::Error::SerdeError)?;
        let read = chunk.len();
        body.consume_unpin(read);
    }
    splitter.end().map_err(kube::Error::SerdeError)
}

/// Splits a list into its items, byte by byte.
#[derive(Debug, Default)]
pub struct Splitter {
    /// Number of open objects and arrays.
    depth: usize,
    /// Whether the array of the items is open. It is the only array among the fields of a list.
    in_items: bool,
    in_string: bool,
    escaped: bool,
    /// The open item.
    item: Vec<u8>,
    /// All but the items.
    envelope: Vec<u8>,
}

/// The depth of an item of the list.
const ITEM: usize = 3;

impl Splitter {
    /// Reads more bytes and passes every complete item to `visit`. An error of `visit` ends the list.
    ///
    /// # Errors
    /// That of `visit`.
    pub fn feed<E>(&mut self, bytes: &[u8], mut visit: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        for byte in bytes {
            let mut ends = false;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => {
                        self.in_items |= self.depth == 1 && *byte == b'[';
                        self.depth += 1;
                    }
                    b'}' | b']' => {
                        ends = self.in_items && self.depth == ITEM;
                        self.in_items &= self.depth != ITEM - 1;
                        self.depth = self.depth.saturating_sub(1);
                    }
                    _ => {}
                }
            }
            if ends {
                self.item.push(*byte);
                visit(&self.item)?;
                self.item.clear();
            } else if self.in_items && self.depth >= ITEM {
                self.item.push(*byte);
            } else if !self.in_items || self.depth < ITEM - 1 || *byte == b'[' {
                // Only the brackets of the array are kept.
                self.envelope.push(*byte);
            }
        }
        Ok(())
    }

    /// The metadata of the list.
    ///
    /// # Errors
    /// The list is incomplete.
    pub fn end(&self) -> Result<ListPage, serde_json::Error> {
        #[derive(Deserialize)]
        struct Envelope {
            #[serde(default)]
            metadata: ListPage,
        }
        serde_json::from_slice(&self.envelope).map(|Envelope { metadata }| metadata)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// The items of `text`, read in chunks of `size` bytes, and the page.
    fn split(text: &str, size: usize) -> (Vec<Value>, Result<ListPage, serde_json::Error>) {
        let (mut splitter, mut items) = (Splitter::default(), Vec::new());
        for chunk in text.as_bytes().chunks(size) {
            let result = splitter.feed(chunk, |item| {
                items.push(serde_json::from_slice(item).unwrap());
                Ok::<(), Infallible>(())
            });
            result.unwrap();
        }
        (items, splitter.end())
    }

    #[rstest]
    #[case::nothing(json!([]))]
    #[case::one(json!([{ "metadata": { "name": "a" } }]))]
    #[case::several(json!([{ "a": [{ "b": [1, 2] }, []] }, {}, { "c": { "d": {} } }]))]
    #[case::brackets_in_texts(json!([{ "a": "]}{[\"\\" }, { "]": "\\\\" }, { "b": "ü\n" }]))]
    fn a_list_is_cut_into_its_items_wherever_its_chunks_end(#[case] items: Value) {
        let metadata = json!({ "continue": "next", "resourceVersion": "7", "remainingItemCount": 3 });
        let list = json!({ "apiVersion": "v1", "items": items, "kind": "List]", "metadata": metadata });
        for text in [list.to_string(), serde_json::to_string_pretty(&list).unwrap()] {
            for size in [1, 2, 3, 7, 1 << 20] {
                let (found, page) = split(&text, size);
                assert_eq!(&found, items.as_array().unwrap());
                let expected = ListPage { next: "next".to_owned(), resource_version: "7".to_owned() };
                assert_eq!(page.unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_list_that_breaks_off_is_an_error() {
        let text = json!({ "items": [{ "a": 1 }, { "b": 2 }], "metadata": {} }).to_string();
        for end in 0..text.len() {
            assert!(split(&text[..end], 5).1.is_err(), "{}", &text[..end]);
        }
        assert!(split("no JSON", 5).1.is_err());
        assert!(split("]]}}{", 5).1.is_err());
    }

    #[test]
    fn a_list_without_items_has_none() {
        assert_eq!(split(r#"{"items":null,"metadata":{}}"#, 4).0, Vec::<Value>::new());
    }

    #[test]
    fn of_a_list_no_more_than_one_item_is_kept() {
        let item = json!({ "a": "x".repeat(10_000) });
        let list = json!({ "items": vec![item; 100], "metadata": {} }).to_string();
        let mut splitter = Splitter::default();
        for chunk in list.as_bytes().chunks(1000) {
            splitter.feed(chunk, |_| Ok::<(), Infallible>(())).unwrap();
            assert!(splitter.item.len() + splitter.envelope.len() < 11_000);
        }
    }
}
