//! The imports, paths and definitions in one source file.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, File, Ident, Item, ItemMod, ItemUse, Macro, Meta, Path, UseTree, Visibility};

use crate::verify::sources::is_test_only;

/// A path as a list of its segments.
pub(super) type Segments = Vec<String>;

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
    mentioned: BTreeSet<String>,
    /// The names of items.
    pub(super) items: BTreeSet<String>,
    /// The names of macros with `#[macro_export]`.
    pub(super) macros: BTreeSet<String>,
    /// The number of inline modules around the current item.
    depth: usize,
}

impl SourceFile {
    /// Reads a source file.
    pub(super) fn read_syntax(file: &File) -> Self {
        let mut source = Self::default();
        source.visit_file(file);
        source
    }

    /// Whether this file depends on an import. A `pub use` only gives a name to other files, unless the name
    /// occurs here, too.
    pub(super) fn uses(&self, import: &ImportedName) -> bool {
        !import.is_public || self.mentioned.contains(&import.name)
    }

    fn add_path(&mut self, path: Segments) {
        if path.len() > 1 {
            self.paths.extend(path_outside_module(path, self.depth));
        }
    }

    /// Adds the paths in the tokens of a macro or an attribute, which syn does not parse. In braces after
    /// `prefix::`, each path begins with the prefix.
    fn add_token_paths(&mut self, tokens: TokenStream, prefix: &[String]) {
        let (mut path, mut colons) = (Segments::new(), 0);
        for token in tokens {
            if let TokenTree::Punct(punct) = &token
                && punct.as_char() == ':'
            {
                colons += 1;
                continue;
            }
            let continues = colons == 2;
            colons = 0;
            if !continues {
                self.add_path(std::mem::take(&mut path));
            }
            match token {
                TokenTree::Ident(name) => {
                    self.mentioned.insert(name.to_string());
                    match (continues, path.is_empty()) {
                        // An absolute path does not begin in this file.
                        (true, true) => path.push(String::new()),
                        (false, _) => path.extend_from_slice(prefix),
                        (true, false) => {}
                    }
                    path.push(name.to_string());
                }
                TokenTree::Group(group) => self.add_token_paths(group.stream(), &std::mem::take(&mut path)),
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.add_path(std::mem::take(&mut path)),
            }
        }
        self.add_path(path);
    }

    fn add_import(&mut self, tree: &UseTree, mut path: Segments, is_public: bool) {
        let (segment, alias) = match tree {
            UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.add_import(item, path.clone(), is_public));
            }
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.add_import(&tree.tree, path, is_public);
            }
            UseTree::Name(tree) => (tree.ident.to_string(), None),
            UseTree::Rename(tree) => (tree.ident.to_string(), Some(tree.rename.to_string())),
            UseTree::Glob(_) => ("*".to_owned(), None),
        };
        if path.is_empty() || segment != "self" {
            path.push(segment);
        }
        let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        let path = path_outside_module(path, self.depth);
        self.imports.extend(path.map(|path| ImportedName { path, name, is_public }));
    }
}

/// Visits these nodes unless they exist in tests only.
macro_rules! skip_test_nodes {
    ($($visit:ident: $node:ident),* $(,)?) => { $(
        fn $visit(&mut self, node: &'ast syn::$node) {
            if !is_test_only(&node.attrs) {
                visit::$visit(self, node);
            }
        }
    )* };
}

impl<'ast> Visit<'ast> for SourceFile {
    skip_test_nodes! {
        visit_arm: Arm, visit_field: Field, visit_field_value: FieldValue, visit_local: Local,
        visit_stmt_macro: StmtMacro, visit_variant: Variant, visit_impl_item_const: ImplItemConst,
        visit_impl_item_fn: ImplItemFn, visit_trait_item_fn: TraitItemFn, visit_expr_block: ExprBlock,
        visit_expr_call: ExprCall, visit_expr_method_call: ExprMethodCall,
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = item_head(item);
        if is_test_only(attributes) {
            return;
        }
        let is_exported = attributes.iter().any(|attribute| attribute.path().is_ident("macro_export"));
        let names = if is_exported { &mut self.macros } else { &mut self.items };
        names.extend(name.map(Ident::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.depth += 1;
        item.content.iter().flat_map(|(_, items)| items).for_each(|item| self.visit_item(item));
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.add_import(&item.tree, Vec::new(), is_public);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            self.add_path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_ident(&mut self, name: &'ast Ident) {
        self.mentioned.insert(name.to_string());
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        visit::visit_macro(self, call);
        self.add_token_paths(call.tokens.clone(), &[]);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        visit::visit_attribute(self, attribute);
        if let Meta::List(list) = &attribute.meta {
            self.add_token_paths(list.tokens.clone(), &[]);
        }
    }
}

/// The attributes of an item, and the name that it defines in its file.
fn item_head(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
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
