//! The nesting of JSON texts.

/// Where a list or a map begins or ends in a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonBracket {
    /// Its position in the text.
    pub at: usize,
    /// Whether the list or map begins here.
    pub opens: bool,
    /// The nesting depth of the list or map; 1 for the outermost one.
    pub depth: usize,
}

/// The brackets of all lists and maps in a JSON text, without those in strings.
pub fn json_brackets(json: &[u8]) -> impl Iterator<Item = JsonBracket> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    json.iter().enumerate().filter_map(move |(at, byte)| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                return Some(JsonBracket { at, opens: true, depth });
            }
            b']' | b'}' => {
                let closed = depth;
                depth = depth.saturating_sub(1);
                return Some(JsonBracket { at, opens: false, depth: closed });
            }
            _ => {}
        }
        None
    })
}
