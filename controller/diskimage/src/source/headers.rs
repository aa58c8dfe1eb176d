//! The headers that a user adds to the requests for the data of an image.
//!
//! All users who may read an image can read them, so a header with credentials belongs into a Secret. A
//! header must not change the destination of a request either: the rules about URLs would not hold. Some
//! metadata services answer only a request with a certain header, which an import could send them.

/// Parts of the names of headers with credentials, in lower case.
const CREDENTIALS: [&str; 8] =
    ["auth", "token", "secret", "passw", "credential", "cookie", "apikey", "api-key"];
/// Parts of the names of headers that change which server answers, or that a metadata service expects.
const DESTINATION: [&str; 2] = ["metadata", "forwarded"];
/// Beginnings of such names.
const OVERRIDES: [&str; 3] = ["x-original", "x-rewrite", "x-http-method"];
/// Names of headers that CDI and the HTTP library set.
const TRANSFER: [&str; 8] =
    ["host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "range"];

/// Why a header is refused. No text contains its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It has no name, or letters that no header has.
    #[error("an entry of extraHeaders is no header such as X-Mirror: eu; correct it")]
    Malformed,
    /// All users who may read the image could read the credentials.
    #[error(
        "an entry of extraHeaders has a name of credentials; put it into a Secret and name the Secret in secretExtraHeaders"
    )]
    Credentials,
    /// The rules about URLs would not hold.
    #[error(
        "an entry of extraHeaders changes which server or path answers, or how CDI transfers the data; remove it"
    )]
    Destination,
}

/// Checks one of `spec.extraHeaders`. The schema has the same rules.
///
/// # Errors
/// If it is no header, can contain credentials, or can change the destination of a request.
pub fn check_extra_header(header: &str) -> Result<(), HeaderError> {
    let (name, value) = header.split_once(':').ok_or(HeaderError::Malformed)?;
    let is_name_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    let is_value_letter = |letter: u8| letter == b' ' || letter.is_ascii_graphic();
    if name.is_empty() || !name.bytes().all(is_name_letter) || !value.bytes().all(is_value_letter) {
        return Err(HeaderError::Malformed);
    }
    let name = name.to_ascii_lowercase();
    // Servers that read the environment of a process take both letters for one.
    let name = name.replace('_', "-");
    if CREDENTIALS.iter().any(|part| name.contains(part)) {
        return Err(HeaderError::Credentials);
    }
    let changes_destination = DESTINATION.iter().any(|part| name.contains(part))
        || OVERRIDES.iter().any(|beginning| name.starts_with(beginning))
        || TRANSFER.contains(&name.as_str());
    if changes_destination { Err(HeaderError::Destination) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_mirror("X-Mirror: eu", Ok(()))]
    #[case::an_agent("User-Agent:vmpool", Ok(()))]
    #[case::an_empty_value("X-Flag:", Ok(()))]
    #[case::no_colon("X-Mirror", Err(HeaderError::Malformed))]
    #[case::no_name(": eu", Err(HeaderError::Malformed))]
    #[case::a_second_header("X-Mirror: eu\r\nHost: b", Err(HeaderError::Malformed))]
    #[case::a_space_in_the_name("X Mirror: eu", Err(HeaderError::Malformed))]
    #[case::authorization("authorization: Bearer 1", Err(HeaderError::Credentials))]
    #[case::a_token("X-Vault-Token: 1", Err(HeaderError::Credentials))]
    #[case::a_key("X-API-Key: 1", Err(HeaderError::Credentials))]
    #[case::a_cookie("Cookie: a=b", Err(HeaderError::Credentials))]
    #[case::another_host("Host: b", Err(HeaderError::Destination))]
    #[case::another_host_for_a_proxy("X-Forwarded-Host: b", Err(HeaderError::Destination))]
    #[case::another_path("X_Original_URL: /private", Err(HeaderError::Destination))]
    #[case::a_metadata_service("Metadata-Flavor: Google", Err(HeaderError::Destination))]
    #[case::another_metadata_service("Metadata: true", Err(HeaderError::Destination))]
    #[case::a_part_of_the_data("Range: bytes=0-1", Err(HeaderError::Destination))]
    fn a_header_is_refused_for_its_reason(#[case] header: &str, #[case] expected: Result<(), HeaderError>) {
        assert_eq!(check_extra_header(header), expected);
    }
}
