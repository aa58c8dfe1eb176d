//! The rules for one file.

use std::path::PathBuf;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, File, FnArg, GenericArgument, Ident, Item, ItemFn, ItemMod, PathArguments, ReturnType,
    Signature, Type, Visibility,
};

/// The widest line of a comment, which is also that of code.
const WIDTH: usize = 110;

/// Words that no name contains, because the glossary has another word for the concept.
const REFUSED_WORDS: &[&str] =
    &["member", "members", "specimen", "specimens", "stash", "stashed", "twin", "seam"];

/// Functions of one word that tell what they do.
const ONE_WORD_FUNCTIONS: &[&str] = &["main"];

/// Which rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceScope {
    /// All rules.
    Product,
    /// A test or a tool: functions may have one word, and errors may be texts.
    Test,
}

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) line: usize,
    pub(super) what: String,
}

/// A type that other modules can name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VisibleType {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

/// What a file contains.
#[derive(Debug, Default)]
pub(super) struct InspectedSource {
    pub(super) findings: Vec<Finding>,
    pub(super) types: Vec<VisibleType>,
}

/// Applies all rules to a file.
pub(super) fn inspect_source(file: &File, text: &str, scope: SourceScope) -> InspectedSource {
    let mut inspector = Inspector { scope, inspected: InspectedSource::default() };
    inspector.visit_file(file);
    let Inspector { mut inspected, .. } = inspector;
    inspected.findings.extend(wide_comments(text));
    inspected
}

/// Comments that are wider than code, apart from links, tables and drawings, which cannot be broken.
fn wide_comments(text: &str) -> impl Iterator<Item = Finding> {
    let is_wide = |line: &str| {
        let comment = line.trim_start();
        let is_drawn = ["://", "|", "─", "->", "- - ", "   "].iter().any(|mark| comment.contains(mark));
        comment.starts_with("//") && !is_drawn && line.chars().count() > WIDTH
    };
    let lines = text.lines().enumerate().filter(move |(_, line)| is_wide(line));
    lines.map(|(index, _)| Finding {
        line: index + 1,
        what: format!("a comment is wider than {WIDTH} columns"),
    })
}

struct Inspector {
    scope: SourceScope,
    inspected: InspectedSource,
}

impl Inspector {
    fn report(&mut self, place: &impl Spanned, what: String) {
        self.inspected.findings.push(Finding { line: place.span().start().line, what });
    }

    fn check_name(&mut self, name: &Ident) {
        let text = name.to_string();
        let word = name_words(&text).find(|word| REFUSED_WORDS.contains(&&**word));
        if let Some(word) = word {
            self.report(
                name,
                format!("the name {text} contains {word:?}; docs/glossary.md has the word for it"),
            );
        }
    }

    fn add_type(&mut self, visibility: &Visibility, name: &Ident) {
        if !matches!(visibility, Visibility::Inherited) {
            let line = name.span().start().line;
            let visible = VisibleType { name: name.to_string(), file: PathBuf::new(), line };
            self.inspected.types.push(visible);
        }
    }

    fn check_signature(&mut self, signature: &Signature) {
        if self.scope == SourceScope::Test {
            return;
        }
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input
                && is_tuple(&input.ty)
            {
                let name = &signature.ident;
                self.report(input, format!("{name} takes a tuple; a struct names its parts"));
            }
        }
        if let ReturnType::Type(_, output) = &signature.output
            && fails_with_text(output)
        {
            let name = &signature.ident;
            self.report(name, format!("the error of {name} is a String; an error type keeps its source"));
        }
    }
}

impl<'ast> Visit<'ast> for Inspector {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Struct(item) => self.add_type(&item.vis, &item.ident),
            Item::Enum(item) => self.add_type(&item.vis, &item.ident),
            Item::Union(item) => self.add_type(&item.vis, &item.ident),
            Item::Trait(item) => self.add_type(&item.vis, &item.ident),
            Item::Type(item) => self.add_type(&item.vis, &item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.check_name(&item.ident);
        let outer = self.scope;
        if is_test_only(&item.attrs) {
            self.scope = SourceScope::Test;
        }
        visit::visit_item_mod(self, item);
        self.scope = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        let name = item.sig.ident.to_string();
        let is_word = !name.contains('_') && !ONE_WORD_FUNCTIONS.contains(&&*name);
        if self.scope == SourceScope::Product && is_word && !is_test_only(&item.attrs) {
            self.report(
                &item.sig.ident,
                format!("the function {name} does not tell what it does where it stands alone"),
            );
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.check_name(&signature.ident);
        self.check_signature(signature);
        visit::visit_signature(self, signature);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.check_name(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        field.ident.iter().for_each(|name| self.check_name(name));
        visit::visit_field(self, field);
    }

    fn visit_visibility(&mut self, visibility: &'ast Visibility) {
        if let Visibility::Restricted(restricted) = visibility
            && restricted.in_token.is_some()
        {
            self.report(restricted, "pub(in ...) names a module; use pub(super) or pub(crate)".to_owned());
        }
        visit::visit_visibility(self, visibility);
    }
}

/// Whether an item exists in tests only.
fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_condition = attribute.path().is_ident("cfg");
        is_condition && attribute_tokens(attribute).contains("test")
    })
}

/// The tokens of an attribute.
fn attribute_tokens(attribute: &Attribute) -> String {
    attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default()
}

/// Whether a type is a tuple with parts, or a reference to one.
fn is_tuple(kind: &Type) -> bool {
    match kind {
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

/// Whether a type is a `Result` whose error is a `String`.
fn fails_with_text(kind: &Type) -> bool {
    let Type::Path(path) = kind else { return false };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else { return false };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    matches!(arguments.args.get(1), Some(GenericArgument::Type(Type::Path(error))) if error.path.is_ident("String"))
}

/// The words of a name, in lower case.
fn name_words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_'
            || letter.is_uppercase() && words.last().is_some_and(|word| word.ends_with(char::is_lowercase))
        {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.into_iter()
}
