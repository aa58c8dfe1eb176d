//! Names in Rust sources that documentation lists.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprIf, File, Item, UseTree, Visibility};

/// The public traits of a file.
pub(super) fn public_traits(file: &File) -> Vec<String> {
    let traits = file.items.iter().filter_map(|item| match item {
        Item::Trait(item) if matches!(item.vis, Visibility::Public(_)) => Some(item.ident.to_string()),
        _ => None,
    });
    traits.collect()
}

/// The variants of an enum, in their order. Empty if the file has no such enum.
pub(super) fn enum_variants(file: &File, name: &str) -> Vec<String> {
    let variants = file.items.iter().filter_map(|item| match item {
        Item::Enum(item) if item.ident == name => Some(&item.variants),
        _ => None,
    });
    variants.flatten().map(|variant| variant.ident.to_string()).collect()
}

/// The modules of the crate whose functions a function of the file calls, each once, in the order of the
/// calls: child modules, and modules that the file imports by a path from `crate`. A call inside an `if`
/// counts only if the function does not call that module elsewhere. A call through a type of a module does
/// not count: it constructs a value that functions of several modules get.
pub(super) fn called_modules(file: &File, function: &str) -> Vec<String> {
    let modules = file.items.iter().flat_map(|item| match item {
        Item::Mod(item) => vec![item.ident.to_string()],
        Item::Use(item) => imported_modules(&item.tree),
        _ => Vec::new(),
    });
    let mut reader = CallReader { modules: modules.collect(), branches: 0, calls: Vec::new() };
    for item in &file.items {
        if let Item::Fn(item) = item
            && item.sig.ident == function
        {
            reader.visit_block(&item.block);
        }
    }
    let calls = reader.calls;
    let always: BTreeSet<&str> =
        calls.iter().filter(|call| !call.is_in_branch).map(|call| call.module.as_str()).collect();
    let mut called: Vec<String> = Vec::new();
    for call in &calls {
        let counts = !call.is_in_branch || !always.contains(call.module.as_str());
        if counts && !called.contains(&call.module) {
            called.push(call.module.clone());
        }
    }
    called
}

/// The modules that an import by a path from `crate` brings into the file, without renamed ones. Names of
/// types begin with a capital letter.
fn imported_modules(tree: &UseTree) -> Vec<String> {
    let mut names = match tree {
        UseTree::Path(path) if path.ident == "crate" => leaf_names(&path.tree, "crate"),
        _ => Vec::new(),
    };
    names.retain(|name| name.starts_with(char::is_lowercase));
    names
}

/// The names at the ends of an import. `self` stands for its parent.
fn leaf_names(tree: &UseTree, parent: &str) -> Vec<String> {
    match tree {
        UseTree::Path(path) => leaf_names(&path.tree, &path.ident.to_string()),
        UseTree::Name(name) if name.ident == "self" => vec![parent.to_owned()],
        UseTree::Name(name) => vec![name.ident.to_string()],
        UseTree::Group(group) => group.items.iter().flat_map(|item| leaf_names(item, parent)).collect(),
        UseTree::Rename(_) | UseTree::Glob(_) => Vec::new(),
    }
}

/// A call of a function of a module.
struct ModuleCall {
    module: String,
    is_in_branch: bool,
}

struct CallReader {
    modules: BTreeSet<String>,
    /// How many `if` expressions are around the current expression.
    branches: usize,
    calls: Vec<ModuleCall>,
}

impl<'ast> Visit<'ast> for CallReader {
    fn visit_expr_if(&mut self, expression: &'ast ExprIf) {
        self.branches += 1;
        visit::visit_expr_if(self, expression);
        self.branches -= 1;
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(function) = &*call.func {
            let segments = &function.path.segments;
            let module = segments.first().map(|first| first.ident.to_string()).unwrap_or_default();
            if segments.len() == 2 && self.modules.contains(&module) {
                self.calls.push(ModuleCall { module, is_in_branch: self.branches > 0 });
            }
        }
        visit::visit_expr_call(self, call);
    }
}
