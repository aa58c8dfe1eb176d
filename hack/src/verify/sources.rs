//! The Rust sources of the tree. Each is read and parsed once, and all checks get the same files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use proc_macro2::TokenStream;
use serde_json::Value;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, File, ItemMod, Lit, Meta};

use super::packages;
use crate::workspace::{Workspace, rust_files};

/// Folders of a package that hold Rust sources.
const SOURCES: &[&str] = &["src", "tests", "examples", "benches"];

/// The content of a source file.
pub(super) struct RustSource {
    pub(super) text: String,
    pub(super) tokens: TokenStream,
    pub(super) syntax: File,
}

impl RustSource {
    /// # Errors
    /// The text is not Rust.
    pub(super) fn parse(text: String) -> Result<Self> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
        let syntax = syn::parse2(tokens.clone()).context("not Rust")?;
        Ok(Self { text, tokens, syntax })
    }
}

/// The working tree, with its packages and the sources that were read so far.
#[derive(Default)]
pub(super) struct SourceTree {
    root: PathBuf,
    /// The workspace's own packages, as `cargo metadata` describes them.
    pub(super) metadata: Value,
    sources: RefCell<BTreeMap<PathBuf, Rc<RustSource>>>,
}

impl SourceTree {
    /// # Errors
    /// Cargo cannot describe the packages.
    pub(super) fn of_workspace(workspace: &Workspace) -> Result<Self> {
        let metadata = packages::workspace_metadata(workspace)?;
        Ok(Self { metadata, ..Self::below(workspace.root()) })
    }

    /// A tree without packages.
    pub(super) fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), ..Self::default() }
    }

    /// The root of the tree.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The text of a file, by its path from the root.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn text(&self, file: &str) -> Result<String> {
        read_text(&self.root.join(file))
    }

    /// A path from the root of the tree.
    pub(super) fn relative_path<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }

    /// A source file, by its path or its path from the root.
    ///
    /// # Errors
    /// It cannot be read or is not Rust.
    pub(super) fn source(&self, path: &Path) -> Result<Rc<RustSource>> {
        let path = self.root.join(path);
        if let Some(source) = self.sources.borrow().get(&path) {
            return Ok(Rc::clone(source));
        }
        let shown = || format!("reading {}", path.display());
        let source = Rc::new(RustSource::parse(read_text(&path)?).with_context(shown)?);
        self.sources.borrow_mut().insert(path, Rc::clone(&source));
        Ok(source)
    }

    /// The folders of the packages.
    pub(super) fn package_folders(&self) -> impl Iterator<Item = &Path> {
        let packages = packages::json_list(&self.metadata, "packages").iter();
        packages.filter_map(|package| Path::new(package["manifest_path"].as_str()?).parent())
    }
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// The Rust files of a package, sorted by folder.
pub(super) fn package_files(package: &Path) -> Result<Vec<PathBuf>> {
    let files: Result<Vec<_>> = SOURCES.iter().map(|folder| rust_files(&package.join(folder))).collect();
    Ok(files?.concat())
}

/// A module in another file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeclaredModule {
    pub(super) name: String,
    /// The value of the attribute `path`.
    pub(super) path: Option<String>,
    /// Whether it exists in tests only.
    pub(super) is_test: bool,
}

impl DeclaredModule {
    /// The file of the module, if it exists. Modules of `main.rs`, `lib.rs` and `mod.rs` are in the same
    /// folder, those of other files in a folder with the file's name.
    pub(super) fn locate(&self, declaring: &Path, is_root: bool) -> Option<PathBuf> {
        let parent = declaring.parent().unwrap_or(Path::new(""));
        let is_own_folder = is_root || declaring.file_name().is_some_and(|name| name == "mod.rs");
        let folder = if is_own_folder { parent.to_owned() } else { declaring.with_extension("") };
        let places = match &self.path {
            Some(path) => vec![parent.join(path)],
            None => vec![folder.join(format!("{}.rs", self.name)), folder.join(&self.name).join("mod.rs")],
        };
        places.into_iter().find(|place| place.is_file())
    }
}

/// The modules that a file declares and that are in other files.
pub(super) fn declared_modules(file: &File) -> Vec<DeclaredModule> {
    let mut reader = ModuleReader::default();
    reader.visit_file(file);
    reader.modules
}

#[derive(Default)]
struct ModuleReader {
    modules: Vec<DeclaredModule>,
    /// Whether a module around the current item exists in tests only.
    in_tests: bool,
}

impl<'ast> Visit<'ast> for ModuleReader {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let outer = self.in_tests;
        self.in_tests |= is_test_only(&item.attrs);
        if item.content.is_none() {
            let path = item.attrs.iter().find_map(path_attribute);
            let name = item.ident.to_string();
            self.modules.push(DeclaredModule { name, path, is_test: self.in_tests });
        }
        visit::visit_item_mod(self, item);
        self.in_tests = outer;
    }
}

/// The text in `#[path = "text"]`.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("path") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an item exists in tests only.
pub(super) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}
