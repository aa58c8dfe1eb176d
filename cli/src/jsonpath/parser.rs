//! The parser of the templates.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ParsedPart {
    /// A text outside of braces, or in quotes.
    Text(String),
    /// The values at a path.
    Path(Vec<PathStep>),
    /// A part for each value at a path.
    Range {
        /// The path.
        path: Vec<PathStep>,
        /// What is rendered for each value.
        body: Vec<ParsedPart>,
    },
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    /// A field of an object.
    Field(String),
    /// An element of a list; a negative index counts from the end.
    Index(i64),
    /// All elements of a list, or all values of an object.
    All,
    /// The elements of a list that have a value at a path.
    Filter {
        /// The path, from the element.
        path: Vec<PathStep>,
        /// The value.
        equals: Value,
    },
}

/// A range whose end has not been read.
struct OpenRange {
    path: Vec<PathStep>,
    /// The parts before the range.
    before: Vec<ParsedPart>,
}

/// Parses a template.
///
/// # Errors
/// A brace, a quote or a range has no end, or an expression is not supported.
pub(super) fn parse_template(text: &str) -> Result<Vec<ParsedPart>> {
    let (mut parts, mut open) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        if start > 0 {
            parts.push(ParsedPart::Text(rest[..start].to_owned()));
        }
        let inside = &rest[start + 1..];
        let end = end_of_expression(inside, '}').context("a { of the template has no }")?;
        let expression = inside[..end].trim();
        rest = &inside[end + 1..];
        if expression == "end" {
            let range: OpenRange = open.pop().context("{end} of the template has no {range}")?;
            let body = std::mem::replace(&mut parts, range.before);
            parts.push(ParsedPart::Range { path: range.path, body });
        } else if let Some(path) = expression.strip_prefix("range ") {
            open.push(OpenRange { path: parse_path(path.trim())?, before: std::mem::take(&mut parts) });
        } else if let Some(literal) = parse_quoted(expression) {
            parts.push(ParsedPart::Text(literal));
        } else {
            parts.push(ParsedPart::Path(parse_path(expression)?));
        }
    }
    ensure!(open.is_empty(), "{{range}} of the template has no {{end}}");
    if !rest.is_empty() {
        parts.push(ParsedPart::Text(rest.to_owned()));
    }
    Ok(parts)
}

/// The place of the first `end` that is not in quotes.
fn end_of_expression(text: &str, end: char) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (place, letter) in text.char_indices() {
        match (quote, letter) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, _) if letter == end => return Some(place),
            _ => {}
        }
    }
    None
}

/// The content of a text in quotes, with its escapes replaced; `None` if it has no quotes.
fn parse_quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut content = String::with_capacity(inside.len());
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        content.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                't' => '\t',
                other => other,
            },
            other => other,
        });
    }
    Some(content)
}

/// Parses a path such as `.conditions[0].type`. It begins at the present element, with or without `$` or `@`.
fn parse_path(text: &str) -> Result<Vec<PathStep>> {
    let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    let mut steps = Vec::new();
    ensure!(rest.starts_with(['.', '[']), "{text:?} of the template is no path: begin it with a dot");
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = end_of_expression(inside, ']').with_context(|| format!("a [ in {text:?} has no ]"))?;
            steps.push(parse_bracket(inside[..end].trim(), text)?);
            rest = &inside[end + 1..];
        } else if let Some(field) = rest.strip_prefix('.') {
            let field = read_field(field);
            let is_root = field.name.is_empty() && steps.is_empty() && !field.rest.starts_with('.');
            ensure!(is_root || !field.name.is_empty(), "{text:?} of the template has an empty field");
            if field.name == "*" {
                steps.push(PathStep::All);
            } else if !field.name.is_empty() {
                steps.push(PathStep::Field(field.name));
            }
            rest = field.rest;
        } else {
            bail!("{rest:?} in {text:?} of the template is not supported");
        }
    }
    Ok(steps)
}

/// A field at the beginning of a text.
struct FieldName<'a> {
    name: String,
    rest: &'a str,
}

/// Reads a field up to the next dot or bracket. A backslash before a dot makes it part of the name.
fn read_field(text: &str) -> FieldName<'_> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return FieldName { name, rest: &text[place..] },
            _ => name.push(letter),
        }
    }
    FieldName { name, rest: "" }
}

/// Parses what is between brackets.
fn parse_bracket(inside: &str, path: &str) -> Result<PathStep> {
    if inside == "*" {
        return Ok(PathStep::All);
    }
    if let Some(name) = parse_quoted(inside) {
        return Ok(PathStep::Field(name));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let (path_text, literal) = filter
            .split_once("==")
            .with_context(|| format!("the filter {filter:?} of the template has no =="))?;
        let literal = literal.trim();
        let equals = parse_quoted(literal).map(Value::String).or_else(|| serde_json::from_str(literal).ok());
        let equals =
            equals.with_context(|| format!("{literal} in {filter:?} of the template is no value"))?;
        return Ok(PathStep::Filter { path: parse_path(path_text.trim())?, equals });
    }
    let index: i64 =
        inside.parse().with_context(|| format!("[{inside}] in {path:?} of the template is not supported"))?;
    Ok(PathStep::Index(index))
}
