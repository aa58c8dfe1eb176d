//! The modules, imports, paths and definitions in one source file.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens::{Cursor, Segments, use_tree};

/// A name that a `use` declaration brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ImportedName {
    /// The imported path. The last segment of a glob import is `*`.
    pub(super) path: Segments,
    /// The name in this file, which differs from the last segment after `as`.
    pub(super) name: String,
    /// Whether it is a `pub use`.
    pub(super) is_public: bool,
}

/// The content of a source file, without items that exist in tests only.
#[derive(Debug, Default)]
pub(super) struct SourceFile {
    pub(super) imports: Vec<ImportedName>,
    /// Paths of at least two segments outside `use` declarations.
    pub(super) paths: Vec<Segments>,
    /// All identifiers outside `use` declarations.
    pub(super) mentioned: BTreeSet<String>,
    /// The names of items.
    pub(super) items: BTreeSet<String>,
    /// The names of macros with `#[macro_export]`.
    pub(super) macros: BTreeSet<String>,
}

/// Keywords before the name of an item, apart from `mod` and `macro_rules`.
const ITEMS: &[&str] = &["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

/// The attributes of the next item.
#[derive(Default)]
struct Attributes {
    is_test: bool,
    is_exported: bool,
    is_public: bool,
}

impl SourceFile {
    /// Reads the tokens of a source file.
    pub(super) fn read_tokens(tokens: TokenStream) -> Self {
        let mut source = Self::default();
        source.read(tokens, 0);
        source
    }

    /// Whether this file depends on an import. A `pub use` only gives a name to other files, unless the name
    /// occurs here, too.
    pub(super) fn uses(&self, import: &ImportedName) -> bool {
        !import.is_public || self.mentioned.contains(&import.name)
    }

    /// Reads tokens within this number of inline modules.
    fn read(&mut self, tokens: TokenStream, depth: usize) {
        let mut cursor = Cursor::new(tokens);
        let mut attributes = Attributes::default();
        while let Some(token) = cursor.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    cursor.skip_punct('!');
                    if let Some(group) = cursor.next_group(Delimiter::Bracket) {
                        attributes.add(&group);
                        self.read(group, depth);
                    }
                    continue;
                }
                TokenTree::Ident(ident) if ident == "pub" => {
                    drop(cursor.next_group(Delimiter::Parenthesis));
                    attributes.is_public = true;
                    continue;
                }
                TokenTree::Ident(ident) if attributes.is_test => cursor.skip_item(&ident.to_string()),
                TokenTree::Group(_) if attributes.is_test => {}
                TokenTree::Ident(ident) => self.ident(ident.to_string(), &mut cursor, &attributes, depth),
                TokenTree::Group(group) => self.read(group.stream(), depth),
                // A path after `::` is absolute or continues a type. It does not begin in this file.
                TokenTree::Punct(punct) if punct.as_char() == ':' && cursor.skip_punct(':') => {
                    drop(cursor.next_path());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            attributes = Attributes::default();
        }
    }

    fn ident(&mut self, ident: String, cursor: &mut Cursor, attributes: &Attributes, depth: usize) {
        match ident.as_str() {
            "use" => use_tree(&mut cursor.until(';'), &[], &mut |path, name| {
                let is_public = attributes.is_public;
                self.imports.extend(path_outside_module(path, depth).map(|path| ImportedName {
                    path,
                    name,
                    is_public,
                }));
            }),
            "mod" => {
                drop(cursor.next_ident());
                if let Some(group) = cursor.next_group(Delimiter::Brace) {
                    self.read(group, depth + 1);
                }
            }
            "macro_rules" if cursor.skip_punct('!') => {
                let Some(name) = cursor.next_ident() else { return };
                let names = if attributes.is_exported { &mut self.macros } else { &mut self.items };
                names.insert(name);
            }
            keyword if ITEMS.contains(&keyword) => {
                let name = cursor.peek_ident().filter(|name| !ITEMS.contains(&name.as_str()));
                self.items.extend(name);
            }
            _ => {
                self.mentioned.insert(ident.clone());
                let mut path = vec![ident];
                if cursor.skip_colons() {
                    path.extend(cursor.next_path());
                }
                if path.len() > 1 {
                    self.paths.extend(path_outside_module(path, depth));
                }
            }
        }
    }
}

impl Attributes {
    fn add(&mut self, tokens: &TokenStream) {
        let text: String = tokens.to_string().split_whitespace().collect();
        self.is_test |= text == "cfg(test)";
        self.is_exported |= text == "macro_export";
    }
}

/// A path within `depth` inline modules as a path from the module of the file. `None` if it stays within the
/// inline modules.
fn path_outside_module(path: Segments, depth: usize) -> Option<Segments> {
    if depth == 0 || path[0] == "crate" {
        return Some(path);
    }
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    if supers < depth {
        return None;
    }
    let rest = path.into_iter().skip(depth);
    let leads_on = supers > depth;
    Some((!leads_on).then(|| "self".to_owned()).into_iter().chain(rest).collect())
}
