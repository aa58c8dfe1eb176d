//! Three-way merge of a template into an object that other clients change, too.
//!
//! The patch sets what the new template sets, and removes what the earlier template set and the new one does
//! not. All other fields stay: defaults, fields from mutating webhooks, and changes by users. The result is a
//! JSON merge patch (RFC 7386), which replaces whole lists. A list in the patch therefore contains the items
//! of other clients, too.

use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// The parts of a schema that a merge needs. Paths are JSON pointers that contain only object fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schema {
    /// Default values of fields, as JSON.
    pub defaults: &'static [(&'static str, &'static str)],
    /// Lists of objects with these fields as their key, a JSON pointer for a nested field. Each item is
    /// merged with its counterpart, and items of other clients follow those of the template. Any other list
    /// is a single value.
    pub keyed: &'static [(&'static str, &'static [&'static str])],
    /// Objects whose field `type` determines their other fields. If the type changes, no former field stays.
    pub unions: &'static [&'static str],
}

impl Schema {
    /// The merge patch that updates `live` from template `from` to template `to`; `None` if nothing differs.
    /// Without `from` no field is removed. Null in a template counts as absent.
    pub fn patch(&self, live: &Value, from: Option<&Value>, to: &Value) -> Option<Value> {
        let nothing = Object::new();
        let live = live.as_object().unwrap_or(&nothing);
        let to = to.as_object().unwrap_or(&nothing);
        let patch = self.objects("", live, from.and_then(Value::as_object), to);
        (!patch.is_empty()).then_some(Value::Object(patch))
    }

    /// `to` with the live values of all fields that `from` and `to` set equally, so that [`Schema::patch`]
    /// writes only the fields that the template changed: a value that another client changed stays, and what
    /// it removed stays removed. `is_same` compares the values of the field at a path, with null for an
    /// absent one; items of lists have a star in their path.
    pub fn keep_live(
        &self,
        live: &Value,
        from: &Value,
        to: &Value,
        is_same: impl Fn(&str, &Value, &Value) -> bool,
    ) -> Value {
        self.value_to_write("", Some(live), Some(from), to, &is_same).unwrap_or(Value::Null)
    }

    /// The value to write at a path; `None` if the field stays absent.
    fn value_to_write(
        &self,
        path: &str,
        live: Option<&Value>,
        from: Option<&Value>,
        to: &Value,
        is_same: &dyn Fn(&str, &Value, &Value) -> bool,
    ) -> Option<Value> {
        if is_same(path, from.unwrap_or(&Value::Null), to) {
            return live.cloned();
        }
        match (live, from, to) {
            (Some(Value::Object(live)), from, Value::Object(to)) => {
                let from = from.and_then(Value::as_object);
                let fields = present_fields(to).filter_map(|(key, to)| {
                    let from = from.and_then(|from| present_field(from, key));
                    Some((
                        key.clone(),
                        self.value_to_write(
                            &path_below(path, key),
                            present_field(live, key),
                            from,
                            to,
                            is_same,
                        )?,
                    ))
                });
                let mut fields: Object = fields.collect();
                // If a template leaves out a value that equals an absent one, nothing changes.
                for (key, from) in from.into_iter().flat_map(present_fields) {
                    if present_field(to, key).is_none()
                        && let Some(live) = present_field(live, key)
                        && is_same(&path_below(path, key), from, &Value::Null)
                    {
                        fields.insert(key.clone(), live.clone());
                    }
                }
                Some(Value::Object(fields))
            }
            (Some(Value::Array(live)), Some(Value::Array(from)), Value::Array(to)) => {
                let Some(keys) = self.keys(path) else { return Some(Value::Array(to.clone())) };
                let path = path_below(path, "*");
                let find = |list: &'_ [Value], like: &Value| {
                    list.iter().position(|item| is_same_item(keys, item, like))
                };
                let items = to.iter().filter_map(|to| {
                    let from = find(from, to).map(|place| &from[place]);
                    let live = find(live, to).map(|place| &live[place]);
                    // Another client removed it.
                    if from.is_some() && live.is_none() {
                        return None;
                    }
                    self.value_to_write(&path, live, from, to, is_same)
                });
                Some(Value::Array(items.collect()))
            }
            _ => Some(to.clone()),
        }
    }

    /// `value` without values that equal defaults.
    pub fn strip_defaults(&self, value: &mut Value) {
        for (path, _) in self.defaults {
            if let Some(value) = value.pointer_mut(path)
                && self.is_default(path, value)
            {
                value.take();
            }
        }
    }

    fn objects(&self, path: &str, live: &Object, from: Option<&Object>, to: &Object) -> Object {
        let another_variant =
            self.unions.contains(&path) && !to.is_empty() && live.get("type") != to.get("type");
        let from = if another_variant { Some(live) } else { from };
        let mut patch = Object::new();
        for (key, wanted) in present_fields(to) {
            let given = from.and_then(|from| present_field(from, key));
            if let Some(change) = self.set(&path_below(path, key), present_field(live, key), given, wanted) {
                patch.insert(key.clone(), change);
            }
        }
        for (key, given) in from.into_iter().flat_map(present_fields) {
            if let (None, Some(live)) = (present_field(to, key), present_field(live, key))
                && let Some(change) = self.removal_patch(&path_below(path, key), live, given)
            {
                patch.insert(key.clone(), change);
            }
        }
        patch
    }

    /// The patch that sets `to`; `None` if nothing differs.
    fn set(&self, path: &str, live: Option<&Value>, from: Option<&Value>, to: &Value) -> Option<Value> {
        match (live, to) {
            (None, to) => (!self.is_implied(path, to)).then(|| without_nulls(to)),
            (Some(Value::Object(live)), Value::Object(to)) => {
                let patch = self.objects(path, live, from.and_then(Value::as_object), to);
                (!patch.is_empty()).then_some(Value::Object(patch))
            }
            (Some(Value::Array(live)), Value::Array(to)) => {
                let from = from.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                match self.keys(path) {
                    Some(keys) => {
                        let merged = self.keyed_list(path, keys, live, from, to);
                        (merged != *live).then_some(Value::Array(merged))
                    }
                    None => {
                        (!self.covers(path, live, from, to)).then(|| without_nulls(&Value::Array(to.clone())))
                    }
                }
            }
            (Some(live), to) => (live != to).then(|| without_nulls(to)),
        }
    }

    /// The patch that removes what `from` set; `None` if nothing of it is present.
    fn removal_patch(&self, path: &str, live: &Value, from: &Value) -> Option<Value> {
        match (live, from) {
            (Value::Object(live), Value::Object(from)) => {
                let patch = self.objects(path, live, Some(from), &Object::new());
                let mut rest = Value::Object(live.clone());
                let patch = Value::Object(patch);
                json_patch::merge(&mut rest, &patch);
                if rest == Value::Object(Object::new()) || self.is_implied(path, &rest) {
                    return Some(Value::Null);
                }
                (patch != Value::Object(Object::new())).then_some(patch)
            }
            (Value::Array(live), Value::Array(from)) => {
                let Some(keys) = self.keys(path) else { return Some(Value::Null) };
                let rest = self.keyed_list(path, keys, live, from, &[]);
                match rest.len() {
                    0 => Some(Value::Null),
                    length if length == live.len() => None,
                    _ => Some(Value::Array(rest)),
                }
            }
            // The API server would set the default again.
            (live, _) => (!self.is_default(path, live)).then_some(Value::Null),
        }
    }

    fn keys(&self, path: &str) -> Option<&'static [&'static str]> {
        self.keyed.iter().find(|(known, _)| *known == path).map(|(_, keys)| *keys)
    }

    /// The items of the template in its order, each merged with its counterpart, followed by items of other
    /// clients.
    fn keyed_list(
        &self,
        path: &str,
        keys: &[&str],
        live: &[Value],
        from: &[Value],
        to: &[Value],
    ) -> Vec<Value> {
        let mut live: Vec<&Value> = live.iter().collect();
        let mut from: Vec<&Value> = from.iter().collect();
        let take = |list: &mut Vec<&Value>, like: &Value| {
            list.iter()
                .position(|item| is_same_item(keys, item, like))
                .map(|place| list.remove(place).clone())
        };
        let mut merged = Vec::new();
        for wanted in to {
            let given = take(&mut from, wanted);
            merged.push(match take(&mut live, wanted) {
                None => without_nulls(wanted),
                Some(mut item) => {
                    let change = self.set(&path_below(path, "*"), Some(&item), given.as_ref(), wanted);
                    json_patch::merge(&mut item, &change.unwrap_or(Value::Object(Object::new())));
                    item
                }
            });
        }
        merged.extend(live.into_iter().filter(|item| take(&mut from, item).is_none()).cloned());
        merged
    }

    /// Whether a single-value list already contains all wanted fields and no fields of the earlier template.
    /// Other fields of its items were filled in by the server.
    fn covers(&self, path: &str, live: &[Value], from: &[Value], to: &[Value]) -> bool {
        let counterpart = |place| from.get(place).filter(|_| from.len() == to.len());
        live.len() == to.len()
            && live.iter().zip(to).enumerate().all(|(place, (live, to))| {
                self.set(&path_below(path, "*"), Some(live), counterpart(place), to).is_none()
            })
    }

    /// Whether `value` is equivalent to an absent value.
    fn is_implied(&self, path: &str, value: &Value) -> bool {
        match value {
            Value::Object(object) => {
                !object.is_empty()
                    && present_fields(object)
                        .all(|(key, value)| self.is_implied(&path_below(path, key), value))
            }
            value => self.is_default(path, value),
        }
    }

    fn is_default(&self, path: &str, value: &Value) -> bool {
        let default = self.defaults.iter().find(|(known, _)| *known == path);
        default.is_some_and(|(_, text)| serde_json::from_str(text).ok().as_ref() == Some(value))
    }
}

/// Whether two items of a keyed list have the same key.
pub fn is_same_item(keys: &[&str], one: &Value, other: &Value) -> bool {
    keys.iter().all(|key| {
        if key.starts_with('/') {
            one.pointer(key) == other.pointer(key)
        } else {
            one.get(key) == other.get(key)
        }
    })
}

fn path_below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn present_field<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn present_fields(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
    object.iter().filter(|(_, value)| !value.is_null())
}

/// `value` without null fields, because a merge patch would store nulls inside lists.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            present_fields(object).map(|(key, value)| (key.clone(), without_nulls(value))).collect(),
        ),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
