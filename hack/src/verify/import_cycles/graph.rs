//! The imports between the files of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::source::{Segments, SourceFile};
use crate::verify::sources::{SourceTree, declared_modules};

/// For each file, the files that it imports, each with a path that causes the import.
pub(super) type Imports = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

/// The path of a module from the root of its crate.
type Name = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Name, Module>,
    /// The modules that define the exported macros.
    macros: BTreeMap<String, Name>,
}

struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    source: SourceFile,
}

/// The imports between the files of the crate with this root file.
///
/// # Errors
/// A file cannot be read.
pub(super) fn crate_imports(tree: &SourceTree, root: &Path) -> Result<Imports> {
    let mut modules = Crate::default();
    modules.load(tree, root, Vec::new(), true)?;
    Ok(modules.imports())
}

impl Crate {
    fn load(&mut self, tree: &SourceTree, file: &Path, name: Name, is_root: bool) -> Result<()> {
        let syntax = &tree.source(file)?.syntax;
        let source = SourceFile::read_syntax(syntax);
        let mut children = BTreeSet::new();
        for module in declared_modules(syntax).into_iter().filter(|module| !module.is_test) {
            if let Some(place) = module.locate(file, is_root) {
                let child = [&name[..], std::slice::from_ref(&module.name)].concat();
                children.insert(module.name);
                self.load(tree, &place, child, false)?;
            }
        }
        self.macros.extend(source.macros.iter().map(|exported| (exported.clone(), name.clone())));
        self.modules.insert(name, Module { file: file.to_owned(), children, source });
        Ok(())
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (name, module) in &self.modules {
            let own = imports.entry(module.file.clone()).or_default();
            let declared = module.source.imports.iter().filter(|import| module.source.uses(import));
            let declared = declared.map(|import| &import.path);
            for path in declared.chain(&module.source.paths) {
                let Some(target) = self.target(name, path) else { continue };
                let target = &self.modules[&target].file;
                if *target != module.file {
                    own.entry(target.clone()).or_insert_with(|| path.join("::"));
                }
            }
        }
        imports
    }

    /// The module that defines what a path in a module refers to. `None` for paths to other crates.
    fn target(&self, module: &Name, path: &Segments) -> Option<Name> {
        self.follow(module, path, &mut BTreeSet::new())
    }

    fn follow(&self, module: &Name, path: &[String], visited: &mut BTreeSet<(Name, String)>) -> Option<Name> {
        let (start, rest) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => {
                let supers = path.iter().take_while(|segment| *segment == "super").count();
                (module[..module.len().checked_sub(supers)?].to_vec(), &path[supers..])
            }
            first => {
                let source = &self.modules[module].source;
                let is_local = self.modules[module].children.contains(first)
                    || source.imports.iter().any(|import| import.name == first && import.path != path);
                if !is_local {
                    return None;
                }
                (module.clone(), path)
            }
        };
        self.define(&start, rest, visited)
    }

    /// The module that defines an item, given by its path from a module.
    fn define(&self, module: &Name, path: &[String], visited: &mut BTreeSet<(Name, String)>) -> Option<Name> {
        let Some(first) = path.first().filter(|first| *first != "*") else { return Some(module.clone()) };
        let Module { children, source, .. } = self.modules.get(module)?;
        if children.contains(first) {
            let child = [module.clone(), vec![first.clone()]].concat();
            return self.define(&child, &path[1..], visited);
        }
        if !visited.insert((module.clone(), first.clone())) {
            return None;
        }
        if let Some(import) = source.imports.iter().find(|import| import.name == *first) {
            let path = [&import.path[..], &path[1..]].concat();
            return self.follow(module, &path, visited);
        }
        if source.items.contains(first) {
            return Some(module.clone());
        }
        if let Some(defining) = self.macros.get(first).filter(|_| module.is_empty()) {
            return Some(defining.clone());
        }
        let globs = source.imports.iter().filter(|import| import.name == "*");
        let mut found = globs.filter_map(|import| {
            let path = [&import.path[..import.path.len() - 1], path].concat();
            self.follow(module, &path, visited)
        });
        // An item that this check does not detect, such as one that a macro generates, counts as defined
        // here.
        found.next().or_else(|| Some(module.clone()))
    }
}
