//! A parameter of a VirtualMachineTemplate in the command line.

use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};

/// A value of `-p`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterValue {
    /// Name of the parameter.
    pub(crate) name: String,
    /// Its value, which can be secret.
    pub(crate) value: String,
}

impl FromStr for ParameterValue {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = text.split_once('=').context("use KEY=VALUE, for example -p NAME=web")?;
        ensure!(!name.is_empty(), "the name of the parameter is missing before the =");
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}
