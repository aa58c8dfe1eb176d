//! Resolves `$ref` fragments in CRD sources.
//!
//! A mapping with the key `$ref: fragments/NAME.yaml` is replaced by the content of that file. Keys beside
//! `$ref` replace the fragment's keys of the same name, so that a shared schema can have a different
//! description in each place. Fragments may contain references to other fragments.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde_yaml_ng::{Mapping, Value};

#[cfg(test)]
mod tests;

/// The fragments of one source directory, each read at most once.
pub(crate) struct Fragments {
    dir: PathBuf,
    read: BTreeMap<String, Value>,
}

impl Fragments {
    /// Fragments that are named relative to `dir`, the directory of the CRD sources.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), read: BTreeMap::new() }
    }

    /// Reads a YAML file and replaces its references by fragments.
    ///
    /// # Errors
    /// The file cannot be read or is not YAML, a reference is not a string or refers to itself, or there are
    /// keys beside a reference to a fragment that is not a mapping.
    pub(crate) fn expand_file(&mut self, file: &Path) -> anyhow::Result<Value> {
        let value = read_yaml(file)?;
        self.expand(value, &mut Vec::new())
    }

    /// Fragments that no expanded file refers to, by name relative to the source directory.
    pub(crate) fn unused(&self) -> anyhow::Result<Vec<String>> {
        let files = crate::files::yaml_files(&self.dir.join("fragments"))?;
        let all: BTreeSet<String> = files
            .iter()
            .filter_map(|path| path.file_name())
            .map(|name| format!("fragments/{}", name.to_string_lossy()))
            .collect();
        Ok(all.into_iter().filter(|name| !self.read.contains_key(name)).collect())
    }

    /// `trail` contains the references that are being resolved, to detect cycles.
    fn expand(&mut self, value: Value, trail: &mut Vec<String>) -> anyhow::Result<Value> {
        match value {
            Value::Mapping(mapping) => self.expand_mapping(mapping, trail),
            Value::Sequence(items) => {
                let items: anyhow::Result<Vec<Value>> =
                    items.into_iter().map(|item| self.expand(item, trail)).collect();
                Ok(Value::Sequence(items?))
            }
            scalar => Ok(scalar),
        }
    }

    fn expand_mapping(&mut self, mut mapping: Mapping, trail: &mut Vec<String>) -> anyhow::Result<Value> {
        let reference = mapping.shift_remove("$ref");
        let mut own = Mapping::new();
        for (key, value) in mapping {
            own.insert(key, self.expand(value, trail)?);
        }
        let Some(reference) = reference else { return Ok(Value::Mapping(own)) };
        let name = reference.as_str().context("$ref must be the name of a fragment")?.to_owned();
        if trail.contains(&name) {
            bail!("{name} refers to itself: {} -> {name}", trail.join(" -> "));
        }
        let fragment = self.fragment(&name)?;
        trail.push(name.clone());
        let expanded = self.expand(fragment, trail)?;
        trail.pop();
        match expanded {
            Value::Mapping(mut base) => {
                for (key, value) in own {
                    base.insert(key, value);
                }
                Ok(Value::Mapping(base))
            }
            other if own.is_empty() => Ok(other),
            _ => bail!("{name} is not a mapping, so no keys can stand beside its $ref"),
        }
    }

    fn fragment(&mut self, name: &str) -> anyhow::Result<Value> {
        if let Some(known) = self.read.get(name) {
            return Ok(known.clone());
        }
        let value = read_yaml(&self.dir.join(name))?;
        self.read.insert(name.to_owned(), value.clone());
        Ok(value)
    }
}

fn read_yaml(file: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    serde_yaml_ng::from_str(&text).with_context(|| format!("parsing {}", file.display()))
}
