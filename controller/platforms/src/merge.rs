//! Three-way merge of a template into an object that others write too.
//!
//! What the wanted template sets is set. What the template before it set, and the wanted one does not, is taken away.
//! All the rest is somebody else's and stays: defaults, what a mutating webhook filled in, a change by hand. The result
//! is a JSON merge patch (RFC 7386), which replaces lists as a whole; so a list in it contains what others have put
//! there.

use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// What a merge must know of a schema. Paths are JSON pointers that go through objects only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schema {
    /// What stands in a field that nobody sets, as JSON.
    pub defaults: &'static [(&'static str, &'static str)],
    /// Lists of objects that are told apart by these fields: each item is merged with its counterpart, and the items of
    /// others stay behind those of the template. Any other list is one value.
    pub keyed: &'static [(&'static str, &'static [&'static str])],
    /// Objects of which the field `type` says which of the other fields may be there: with another type nothing of the
    /// former content stays.
    pub unions: &'static [&'static str],
}

impl Schema {
    /// The merge patch that makes `live` one of template `to`, which is `from` until now; `None` if nothing differs.
    /// Without `from` nothing is taken away. Null in a template is the same as nothing.
    pub fn patch(&self, live: &Value, from: Option<&Value>, to: &Value) -> Option<Value> {
        let nothing = Object::new();
        let live = live.as_object().unwrap_or(&nothing);
        let to = to.as_object().unwrap_or(&nothing);
        let patch = self.objects("", live, from.and_then(Value::as_object), to);
        (!patch.is_empty()).then_some(Value::Object(patch))
    }

    /// `value` without what equals a default, which takes the place of whatever is not there.
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
        for (key, wanted) in present(to) {
            let given = from.and_then(|from| get(from, key));
            if let Some(change) = self.set(&below(path, key), get(live, key), given, wanted) {
                patch.insert(key.clone(), change);
            }
        }
        for (key, given) in from.into_iter().flat_map(present) {
            if let (None, Some(live)) = (get(to, key), get(live, key))
                && let Some(change) = self.take(&below(path, key), live, given)
            {
                patch.insert(key.clone(), change);
            }
        }
        patch
    }

    /// What to write where `to` shall stand; `None` if it does.
    fn set(&self, path: &str, live: Option<&Value>, from: Option<&Value>, to: &Value) -> Option<Value> {
        match (live, to) {
            (None, to) => (!self.is_implied(path, to)).then(|| pruned(to)),
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
                    None => (!self.covers(path, live, from, to)).then(|| pruned(&Value::Array(to.clone()))),
                }
            }
            (Some(live), to) => (live != to).then(|| pruned(to)),
        }
    }

    /// What to write where `from` was set and nothing is wanted; `None` if that is not there.
    fn take(&self, path: &str, live: &Value, from: &Value) -> Option<Value> {
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
            // It would only come back.
            (live, _) => (!self.is_default(path, live)).then_some(Value::Null),
        }
    }

    fn keys(&self, path: &str) -> Option<&'static [&'static str]> {
        self.keyed.iter().find(|(known, _)| *known == path).map(|(_, keys)| *keys)
    }

    /// Items of the template in its order, each merged with its counterpart, then those of others.
    fn keyed_list(
        &self,
        path: &str,
        keys: &[&str],
        live: &[Value],
        from: &[Value],
        to: &[Value],
    ) -> Vec<Value> {
        let is_same = |one: &Value, other: &Value| keys.iter().all(|key| one.get(key) == other.get(key));
        let mut live: Vec<&Value> = live.iter().collect();
        let mut from: Vec<&Value> = from.iter().collect();
        let take = |list: &mut Vec<&Value>, like: &Value| {
            list.iter().position(|item| is_same(item, like)).map(|place| list.remove(place).clone())
        };
        let mut merged = Vec::new();
        for wanted in to {
            let given = take(&mut from, wanted);
            merged.push(match take(&mut live, wanted) {
                None => pruned(wanted),
                Some(mut item) => {
                    let change = self.set(&below(path, "*"), Some(&item), given.as_ref(), wanted);
                    json_patch::merge(&mut item, &change.unwrap_or(Value::Object(Object::new())));
                    item
                }
            });
        }
        merged.extend(live.into_iter().filter(|item| take(&mut from, item).is_none()).cloned());
        merged
    }

    /// Whether a list that is one value has all that is wanted, and nothing of what was wanted before: what an item has
    /// beyond that was filled in by the server.
    fn covers(&self, path: &str, live: &[Value], from: &[Value], to: &[Value]) -> bool {
        let counterpart = |place| from.get(place).filter(|_| from.len() == to.len());
        live.len() == to.len()
            && live.iter().zip(to).enumerate().all(|(place, (live, to))| {
                self.set(&below(path, "*"), Some(live), counterpart(place), to).is_none()
            })
    }

    /// Whether leaving `value` out means the same.
    fn is_implied(&self, path: &str, value: &Value) -> bool {
        match value {
            Value::Object(object) => {
                !object.is_empty()
                    && present(object).all(|(key, value)| self.is_implied(&below(path, key), value))
            }
            value => self.is_default(path, value),
        }
    }

    fn is_default(&self, path: &str, value: &Value) -> bool {
        let default = self.defaults.iter().find(|(known, _)| *known == path);
        default.is_some_and(|(_, text)| serde_json::from_str(text).ok().as_ref() == Some(value))
    }
}

fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn get<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn present(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
    object.iter().filter(|(_, value)| !value.is_null())
}

/// Without fields that are null: a merge patch keeps those inside lists, and the server would have to.
fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            Value::Object(present(object).map(|(key, value)| (key.clone(), pruned(value))).collect())
        }
        Value::Array(items) => items.iter().map(pruned).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
