//! Items of lists in which exactly one of several fields may be set, for example the source of a volume.
//!
//! If the template selects another variant, no field of the former one may stay, whether the template or
//! another client set it: KubeVirt would reject the machine.

use serde_json::{Value, json};
use vmpool_platform::merge::is_same_item;

pub(super) const DATA_VOLUME_TEMPLATES: &str = "/dataVolumeTemplates";
pub(super) const VOLUMES: &str = "/template/spec/volumes";
pub(super) const NETWORKS: &str = "/template/spec/networks";
pub(super) const DISKS: &str = "/template/spec/domain/devices/disks";
pub(super) const INTERFACES: &str = "/template/spec/domain/devices/interfaces";

/// The fields of an item that are variants.
enum Variants {
    /// All except the name.
    AllButName,
    /// These.
    Only(&'static [&'static str]),
    /// `spec` as a whole: its parts are variants of each other in several ways.
    Spec,
}

impl Variants {
    fn contain(&self, field: &str) -> bool {
        match self {
            Self::AllButName => field != "name",
            Self::Only(fields) => fields.contains(&field),
            Self::Spec => field == "spec",
        }
    }
}

const LISTS: [(&str, &[&str], Variants); 5] = [
    (DATA_VOLUME_TEMPLATES, &["/metadata/name"], Variants::Spec),
    (VOLUMES, &["name"], Variants::AllButName),
    (NETWORKS, &["name"], Variants::Only(&["pod", "multus"])),
    (DISKS, &["name"], Variants::Only(&["disk", "lun", "cdrom", "floppy"])),
    (
        INTERFACES,
        &["name"],
        Variants::Only(&[
            "bridge",
            "masquerade",
            "slirp",
            "sriov",
            "macvtap",
            "passt",
            "passtBinding",
            "binding",
        ]),
    ),
];

/// Adds to `base`, the template whose fields a merge removes, the live variants that `wanted` replaces.
pub(super) fn replace_variants(live: &Value, base: &mut Value, wanted: &Value) {
    for (path, keys, variants) in LISTS {
        for item in items_at_path(wanted, path) {
            let Some(current) =
                items_at_path(live, path).iter().find(|current| is_same_item(keys, current, item))
            else {
                continue;
            };
            let former: Vec<(&String, &Value)> = nonnull_fields(current)
                .filter(|(field, value)| match variants {
                    Variants::Spec => variants.contain(field) && item[*field] != **value,
                    _ => variants.contain(field) && item[*field].is_null(),
                })
                .collect();
            if former.is_empty() || !nonnull_fields(item).any(|(field, _)| variants.contain(field)) {
                continue;
            }
            let Some(given) = find_or_add_item(base, path, keys, item) else { continue };
            for (field, value) in former {
                given[field] = value.clone();
            }
        }
    }
}

fn items_at_path<'a>(spec: &'a Value, path: &str) -> &'a [Value] {
    spec.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn nonnull_fields(item: &Value) -> impl Iterator<Item = (&String, &Value)> {
    item.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null())
}

/// The item of `base` with the key of `like`; an item with nothing but its key if there is none.
fn find_or_add_item<'a>(
    base: &'a mut Value,
    path: &str,
    keys: &[&str],
    like: &Value,
) -> Option<&'a mut Value> {
    let mut value = base;
    for field in path.split('/').skip(1) {
        if value.is_null() {
            *value = json!({});
        }
        value = value.as_object_mut()?.entry(field).or_insert(Value::Null);
    }
    if value.is_null() {
        *value = json!([]);
    }
    let items = value.as_array_mut()?;
    let place = items.iter().position(|item| is_same_item(keys, item, like)).unwrap_or_else(|| {
        let item = match like.pointer("/metadata/name") {
            Some(name) => json!({ "metadata": { "name": name } }),
            None => json!({ "name": like["name"] }),
        };
        items.push(item);
        items.len() - 1
    });
    items.get_mut(place).filter(|item| item.is_object())
}
