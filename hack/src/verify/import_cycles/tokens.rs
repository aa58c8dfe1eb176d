//! Reads a sequence of Rust tokens.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path as a list of its segments.
pub(super) type Segments = Vec<String>;

/// Keywords of items that contain commas before their end.
const WITH_COMMAS: &[&str] = &["async", "const", "fn", "impl", "struct", "trait", "type", "unsafe", "use"];

/// A position in a sequence of tokens.
pub(super) struct Cursor {
    tokens: Vec<TokenTree>,
    at: usize,
}

impl Iterator for Cursor {
    type Item = TokenTree;

    fn next(&mut self) -> Option<TokenTree> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }
}

impl Cursor {
    pub(super) fn new(tokens: TokenStream) -> Self {
        Self { tokens: tokens.into_iter().collect(), at: 0 }
    }

    /// The next token, if it is an identifier or a keyword, without skipping it.
    pub(super) fn peek_ident(&self) -> Option<String> {
        match self.tokens.get(self.at) {
            Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
            _ => None,
        }
    }

    /// Skips and returns the next token, if it is an identifier or a keyword.
    pub(super) fn next_ident(&mut self) -> Option<String> {
        let ident = self.peek_ident();
        self.at += usize::from(ident.is_some());
        ident
    }

    /// Skips the next token and returns its content, if it is a group with this delimiter.
    pub(super) fn next_group(&mut self, delimiter: Delimiter) -> Option<TokenStream> {
        match self.tokens.get(self.at) {
            Some(TokenTree::Group(group)) if group.delimiter() == delimiter => {
                let content = group.stream();
                self.at += 1;
                Some(content)
            }
            _ => None,
        }
    }

    /// Skips the next token, if it is this character. Returns whether it is.
    pub(super) fn skip_punct(&mut self, character: char) -> bool {
        let found = self.is_punct(0, character);
        self.at += usize::from(found);
        found
    }

    /// Skips `::`, if it comes next. Returns whether it does.
    pub(super) fn skip_colons(&mut self) -> bool {
        let found = self.is_punct(0, ':') && self.is_punct(1, ':');
        self.at += if found { 2 } else { 0 };
        found
    }

    /// Skips and returns the identifiers up to the first one that `::` does not follow.
    pub(super) fn next_path(&mut self) -> Segments {
        let mut path = Vec::new();
        while let Some(ident) = self.next_ident() {
            path.push(ident);
            if !self.skip_colons() {
                break;
            }
        }
        path
    }

    /// Skips the tokens up to this character, and returns those before it.
    pub(super) fn until(&mut self, character: char) -> Self {
        let start = self.at;
        while self.at < self.tokens.len() && !self.is_punct(0, character) {
            self.at += 1;
        }
        let tokens = self.tokens[start..self.at].to_vec();
        self.at += 1;
        Self { tokens, at: 0 }
    }

    /// Skips the rest of an item, a field or a statement that begins with this word.
    pub(super) fn skip_item(&mut self, word: &str) {
        let ends_at_comma = !WITH_COMMAS.contains(&word);
        for token in self.by_ref() {
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
                TokenTree::Punct(punct) if punct.as_char() == ';' => return,
                TokenTree::Punct(punct) if punct.as_char() == ',' && ends_at_comma => return,
                _ => {}
            }
        }
    }

    fn is_punct(&self, offset: usize, character: char) -> bool {
        let token = self.tokens.get(self.at + offset);
        matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
    }
}

/// Calls `add` with the path and the name of each import in a `use` declaration.
pub(super) fn use_tree(cursor: &mut Cursor, prefix: &[String], add: &mut impl FnMut(Segments, String)) {
    cursor.skip_colons();
    while cursor.at < cursor.tokens.len() {
        let start = cursor.at;
        let mut path = prefix.to_vec();
        path.extend(cursor.next_path());
        if let Some(group) = cursor.next_group(Delimiter::Brace) {
            use_tree(&mut Cursor::new(group), &path, add);
        } else {
            if cursor.skip_punct('*') {
                path.push("*".to_owned());
            }
            let alias = (cursor.peek_ident().as_deref() == Some("as")).then(|| {
                cursor.at += 1;
                cursor.next_ident().unwrap_or_default()
            });
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            if let Some(last) = path.last().cloned() {
                add(path, alias.unwrap_or(last));
            }
        }
        cursor.skip_punct(',');
        // A variable of a macro, such as `$crate`, is not part of a path that this check can follow.
        if cursor.at == start {
            cursor.at += 1;
        }
    }
}
