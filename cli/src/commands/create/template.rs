//! The parameters of a VirtualMachineTemplate, and their replacement in its machine.
//!
//! `${NAME}` in a text is replaced by the value, and a text that is only `${{NAME}}` becomes the value
//! itself, for example a number. No error contains a value, which can be a password.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

use crate::parameter::ParameterValue;

/// The parameter that names the machine, by convention. A pool has the names of its machines.
const NAME: &str = "NAME";
/// No field of a machine is larger, because the API server stores objects of up to 1.5 MB.
const MAX_TEXT_BYTES: usize = 1_500_000;

/// The parameters of a template, with the values for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TemplateParameters {
    /// The values of the user, and the name of the pool for the parameter `NAME`.
    pub(super) given: BTreeMap<String, String>,
    /// The values that the template has, and whether a missing one is needed.
    declared: BTreeMap<String, DeclaredParameter>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DeclaredParameter {
    value: String,
    is_required: bool,
    is_generated: bool,
}

impl TemplateParameters {
    /// Reads the parameters of a template with this spec. `pool` is the name of the new pool.
    ///
    /// # Errors
    /// The user gives a parameter twice, or one that the template does not have.
    pub(super) fn read(spec: &Value, values: &[ParameterValue], pool: &str) -> Result<Self> {
        let mut parameters = Self::default();
        for declared in spec["parameters"].as_array().into_iter().flatten() {
            let text = |field: &str| declared[field].as_str().unwrap_or_default();
            let parameter = DeclaredParameter {
                value: text("value").to_owned(),
                is_required: declared["required"] == true,
                is_generated: !text("generate").is_empty(),
            };
            parameters.declared.insert(text("name").to_owned(), parameter);
        }
        for ParameterValue { name, value } in values {
            let known: Vec<&str> = parameters.declared.keys().map(String::as_str).collect();
            ensure!(
                parameters.declared.contains_key(name),
                "the template has no parameter {name}; it has {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
            let former = parameters.given.insert(name.clone(), value.clone());
            ensure!(former.is_none(), "the parameter {name} is given twice");
        }
        let needs_name = parameters.declared.get(NAME).is_some_and(|name| name.value.is_empty());
        if needs_name {
            parameters.given.entry(NAME.to_owned()).or_insert_with(|| pool.to_owned());
        }
        Ok(parameters)
    }

    /// The value of each parameter.
    fn resolve(&self) -> Result<BTreeMap<&str, &str>> {
        let mut values = BTreeMap::new();
        for (name, declared) in &self.declared {
            let value = self.given.get(name).unwrap_or(&declared.value);
            let is_missing = value.is_empty();
            ensure!(
                !is_missing || !declared.is_generated,
                "the parameter {name} is generated, which only the API server of the templates does; give its value with -p, or \
                 omit --local"
            );
            ensure!(
                !is_missing || !declared.is_required,
                "the parameter {name} needs a value; give it with -p"
            );
            values.insert(name.as_str(), value.as_str());
        }
        Ok(values)
    }
}

/// The machine of a template with this spec, with its parameters replaced.
///
/// # Errors
/// A parameter has no value, or the machine names one that the template does not have.
pub(super) fn process_locally(spec: &Value, parameters: &TemplateParameters) -> Result<Value> {
    ensure!(spec["virtualMachine"].is_object(), "the template has no virtualMachine");
    replace_parameters(&spec["virtualMachine"], &parameters.resolve()?)
}

fn replace_parameters(value: &Value, values: &BTreeMap<&str, &str>) -> Result<Value> {
    Ok(match value {
        Value::String(text) => match find_whole_reference(text) {
            Some(name) => {
                let value = find_value(name, values)?;
                serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()))
            }
            None => replace_in_text(text, values)?.into(),
        },
        Value::Array(items) => {
            items.iter().map(|item| replace_parameters(item, values)).collect::<Result<Vec<_>>>()?.into()
        }
        Value::Object(fields) => {
            let mut replaced = Map::new();
            for (name, value) in fields {
                replaced.insert(replace_in_text(name, values)?, replace_parameters(value, values)?);
            }
            replaced.into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

fn find_value<'v>(name: &str, values: &BTreeMap<&str, &'v str>) -> Result<&'v str> {
    values
        .get(name)
        .copied()
        .with_context(|| format!("the machine names {name}, which is no parameter of the template"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// The parameter of a text that is only `${{NAME}}`.
fn find_whole_reference(text: &str) -> Option<&str> {
    text.strip_prefix("${{")?.strip_suffix("}}").filter(|name| is_name(name))
}

/// The text with each `${NAME}` replaced. A value that contains such a text is not read again.
fn replace_in_text(text: &str, values: &BTreeMap<&str, &str>) -> Result<String> {
    let (mut replaced, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("${") {
        replaced.push_str(before);
        if let Some((name, end)) = after.split_once('}').filter(|(name, _)| is_name(name)) {
            replaced.push_str(find_value(name, values)?);
            rest = end;
        } else {
            replaced.push_str("${");
            rest = after;
        }
        if replaced.len() > MAX_TEXT_BYTES {
            bail!(
                "a text of the machine has more than {MAX_TEXT_BYTES} bytes after the replacement of parameters"
            );
        }
    }
    replaced.push_str(rest);
    Ok(replaced)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn spec() -> Value {
        json!({
            "parameters": [
                { "name": "NAME", "required": true }, { "name": "CORES", "value": "2" },
                { "name": "PASSWORD", "generate": "expression", "from": "[a-z]{8}" }, { "name": "NOTE" },
            ],
            "virtualMachine": { "metadata": { "name": "${NAME}" }, "spec": {
                "cores": "${{CORES}}", "text": "${NAME}-${CORES}$", "note": "${NOTE}", "password": "${PASSWORD}",
                "${NAME}": true, "shell": "${not a name} $${CORES} ${",
            } },
        })
    }

    fn given(texts: &[&str]) -> Vec<ParameterValue> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn process(texts: &[&str]) -> Result<Value> {
        let parameters = TemplateParameters::read(&spec(), &given(texts), "farm")?;
        process_locally(&spec(), &parameters)
    }

    #[test]
    fn parameters_are_replaced() {
        let machine = process(&["NAME=web", "PASSWORD=a=${NAME}"]).unwrap();
        let expected = json!({
            "cores": 2, "text": "web-2$", "note": "", "password": "a=${NAME}", "web": true,
            "shell": "${not a name} $2 ${",
        });
        assert_eq!((&machine["metadata"]["name"], &machine["spec"]), (&json!("web"), &expected));
    }

    #[test]
    fn the_name_of_the_pool_is_the_default_of_the_name() {
        assert_eq!(process(&["PASSWORD=a"]).unwrap()["metadata"]["name"], "farm");
        let parameters = TemplateParameters::read(&spec(), &[], "farm").unwrap();
        assert_eq!(parameters.given, BTreeMap::from([("NAME".to_owned(), "farm".to_owned())]));
    }

    #[rstest]
    #[case::unknown(&["SIZE=2"], "no parameter SIZE; it has CORES, NAME, NOTE, PASSWORD")]
    #[case::twice(&["CORES=2", "CORES=3"], "CORES is given twice")]
    #[case::generated(&["NAME=hunter2"], "PASSWORD is generated")]
    #[case::required(&["NAME=", "PASSWORD=hunter2"], "NAME needs a value")]
    fn a_wrong_parameter_is_refused_without_its_value(#[case] texts: &[&str], #[case] expected: &str) {
        let error = process(texts).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_reference_to_a_missing_parameter_is_refused() {
        let spec = json!({ "virtualMachine": { "spec": { "a": "${OTHER}" } } });
        let error = process_locally(&spec, &TemplateParameters::default()).unwrap_err();
        assert!(error.to_string().contains("OTHER"), "{error}");
    }

    #[rstest]
    #[case::no_value("NAME")]
    #[case::no_name("=web")]
    fn a_parameter_has_a_name_and_a_value(#[case] text: &str) {
        assert!(text.parse::<ParameterValue>().is_err());
    }
}
