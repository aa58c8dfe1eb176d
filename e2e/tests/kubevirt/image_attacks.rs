//! Attacks on disk images of another namespace, as users with the chart's roles, against the chart's webhook.
//!
//! The namespace `images` contains an image, and its owner has granted some of it to `evil`. Mallory is an
//! editor of `evil`.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::diskimage::finalizers::IMAGE_PROTECTION;
use vmpool_e2e::wait::eventually;
use vmpool_installation::workspace_root;

use crate::{TestNamespace, guarded, run_to_end};

/// The attacker: an editor of `evil`.
const MALLORY: &str = "mallory";
/// An editor of `images`, who is not its administrator.
const EDITOR: &str = "edith";
/// A viewer of `images`.
const VIEWER: &str = "victor";

const IMAGES: &str = "/apis/vmpool.dev/v1alpha1/namespaces/images/vmdiskimages";
const GRANTS: &str = "/apis/vmpool.dev/v1alpha1/namespaces/images/vmdiskimagegrants";
const OWN_IMAGES: &str = "/apis/vmpool.dev/v1alpha1/namespaces/evil/vmdiskimages";
const WRAPPERS: &str = "/apis/vmpool.dev/v1alpha1/namespaces/evil/wrappedvirtualmachines";

/// One attack: its meaning, the user, the request, and a part of the refusal.
type Attack = (&'static str, &'static str, Method, String, Value, &'static str);

fn image(name: &str, url: &str) -> Value {
    json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage", "metadata": { "name": name },
        "spec": { "sourceType": "http", "url": url, "diskSize": "10Gi" },
    })
}

fn grant(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImageGrant", "metadata": { "name": name },
        "spec": spec })
}

/// A wrapper of an image in the namespace `images`.
fn wrapper(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VirtualMachine", "metadata": { "name": name },
        "spec": {
            "vmDiskImageRef": { "name": image, "namespace": "images" },
            "virtualMachineTemplate": { "spec": { "runStrategy": "Always",
                "template": { "spec": { "domain": { "devices": {} } } } } },
        },
    })
}

/// A wrapper that creates its image, with these changes of what a grant permits.
fn creating(image: &str, change: &Value) -> Value {
    let mut wrapper = wrapper("creator", image);
    let mut template =
        json!({ "sourceType": "http", "url": "https://mirror.example/public/a.qcow2", "diskSize": "5Gi" });
    for (field, value) in change.as_object().into_iter().flatten() {
        template[field] = value.clone();
    }
    wrapper["spec"]["vmDiskImageTemplate"] = template;
    wrapper
}

/// Attacks that create an object in the attacker's own namespace.
fn creations() -> Vec<Attack> {
    let own_image = |meaning, url: &str, refusal| {
        let path = OWN_IMAGES.to_owned();
        (meaning, MALLORY, Method::POST, path, image("mine", url), refusal)
    };
    let new_wrapper = |meaning, wrapper: Value, refusal| {
        (meaning, MALLORY, Method::POST, WRAPPERS.to_owned(), wrapper, refusal)
    };
    let create = |meaning, change: Value, refusal| {
        let path = WRAPPERS.to_owned();
        (meaning, MALLORY, Method::POST, path, creating("new", &change), refusal)
    };
    vec![
        own_image(
            "an import from the metadata service",
            "http://169.254.169.254/latest/user-data",
            "link-local",
        ),
        own_image("an import from the node", "http://127.0.0.1:10250/pods", "loopback"),
        own_image("loopback as one number", "http://2130706433/", "rule V1"),
        own_image("loopback in octal", "http://0177.0.0.1/", "rule V1"),
        own_image("loopback inside of IPv6", "http://[::ffff:127.0.0.1]/", "rule V1"),
        own_image("the metadata service inside of 6to4", "http://[2002:a9fe:a9fe::]/latest", "rule V1"),
        own_image("loopback behind NAT64", "http://[64:ff9b::7f00:1]/", "rule V1"),
        own_image("a name of loopback", "http://a.localhost/", "rule V1"),
        own_image("a name of loopback for IPv6", "http://ip6-localhost/", "rule V1"),
        own_image("a name of the metadata service", "http://metadata.goog/", "rule V1"),
        own_image("credentials in the URL", "https://me:hunter2@images.example/a", "user or password"),
        own_image("a URL that parsers read differently", "https://images.example/a/..%2f..%2fb", "rule V1"),
        new_wrapper("an image that is not granted", wrapper("a", "secret"), "rule V3"),
        new_wrapper("an image that is granted to pools only", wrapper("a", "for-pools"), "rule V3"),
        new_wrapper("an image that is being deleted", wrapper("a", "leaving"), "rule V5"),
        new_wrapper("creation without any grant", creating("secret-new", &json!({})), "rule V3"),
        new_wrapper("creation with the grant of a reference", creating("unborn", &json!({})), "rule V4"),
        create("the Secret of the owner", json!({ "secretRef": "credentials" }), "rule V4"),
        create("another host", json!({ "url": "https://evil.example/public/a" }), "rule V4"),
        create(
            "a path that only begins like the permitted one",
            json!({ "url": "https://mirror.example/public-evil/a" }),
            "rule V4",
        ),
        create("another port", json!({ "url": "https://mirror.example:8443/public/a" }), "rule V4"),
        create("another scheme", json!({ "url": "http://mirror.example/public/a" }), "rule V4"),
        create(
            "a path that leaves the permitted one",
            json!({ "url": "https://mirror.example/public/../private/a" }),
            "rule V1",
        ),
        create("an expensive StorageClass", json!({ "storageClass": "gold" }), "rule V4"),
        create("a disk that is too large", json!({ "diskSize": "6Gi" }), "rule V4"),
        create(
            "a private claim of the owner",
            json!({ "sourceType": "pvc", "url": null, "sourceName": "private" }),
            "rule V4",
        ),
        create(
            "a private snapshot of the owner",
            json!({ "sourceType": "snapshot", "url": null, "sourceName": "private" }),
            "rule V4",
        ),
        create("a server without a certificate", json!({ "insecureSkipVerify": true }), "rule V4"),
        create("headers for the server of the owner", json!({ "extraHeaders": ["X-Path: a"] }), "rule V4"),
        create(
            "a Secret of the owner as headers",
            json!({ "secretExtraHeaders": ["credentials"] }),
            "rule V4",
        ),
        create(
            "another host in a header",
            json!({ "extraHeaders": ["Host: internal.example"] }),
            "changes which server",
        ),
        create(
            "an internal address through the owner's importer",
            json!({ "url": "http://169.254.169.254/" }),
            "link-local",
        ),
        create("the URL of one grant with the Secret of another", json!({ "secretRef": "other" }), "rule V4"),
    ]
}

/// Attacks on objects that exist, and on rights.
fn changes() -> Vec<Attack> {
    let patch = |meaning, user, path: &str, body: Value, refusal| {
        (meaning, user, Method::PATCH, path.to_owned(), body, refusal)
    };
    vec![
        ("reading an image", MALLORY, Method::GET, format!("{IMAGES}/debian"), Value::Null, "forbidden"),
        (
            "creating an image in another namespace",
            MALLORY,
            Method::POST,
            IMAGES.to_owned(),
            image("b", "https://mirror.example/b"),
            "forbidden",
        ),
        (
            "a grant by an editor",
            EDITOR,
            Method::POST,
            GRANTS.to_owned(),
            grant("mine", &json!({ "from": [{ "namespace": "evil" }] })),
            "forbidden",
        ),
        (
            "an image by a viewer",
            VIEWER,
            Method::POST,
            IMAGES.to_owned(),
            image("b", "https://mirror.example/b"),
            "forbidden",
        ),
        patch(
            "labels for the selector of a grant",
            MALLORY,
            "/api/v1/namespaces/evil",
            json!({ "metadata": { "labels": { "team": "trusted" } } }),
            "forbidden",
        ),
        patch(
            "another URL for an image",
            EDITOR,
            &format!("{IMAGES}/debian"),
            json!({ "spec": { "url": "https://evil.example/a" } }),
            "immutable",
        ),
        patch(
            "a forged count",
            EDITOR,
            &format!("{IMAGES}/debian/status"),
            json!({ "status": { "referenceCount": 0 } }),
            "forbidden",
        ),
        patch(
            "a forged mark",
            MALLORY,
            &format!("{WRAPPERS}/good/status"),
            json!({ "status": { "vmDiskImage": { "namespace": "images", "name": "debian", "uid": "u", "bound": true } } }),
            "forbidden",
        ),
        patch(
            "another image for a wrapper",
            MALLORY,
            &format!("{WRAPPERS}/good"),
            json!({ "spec": { "vmDiskImageRef": { "name": "secret" } } }),
            "immutable",
        ),
        patch(
            "a template with an internal address, later",
            MALLORY,
            &format!("{WRAPPERS}/good"),
            json!({ "spec": { "vmDiskImageTemplate": creating("x", &json!({ "url": "http://2130706433/" }))["spec"]["vmDiskImageTemplate"] } }),
            "rule V1",
        ),
    ]
}

/// What the owner of the images has stored.
async fn prepare(place: &TestNamespace<'_>) -> Result<()> {
    for name in ["debian", "secret", "for-pools", "leaving"] {
        let mut image = image(name, "https://mirror.example/public/a.qcow2");
        if name == "leaving" {
            image["metadata"]["finalizers"] = json!(["example.com/keep"]);
        }
        let stored = place.ask(Method::POST, IMAGES, &image).await?;
        // No controller runs: the webhook protects the image.
        let finalizers = stored["metadata"]["finalizers"].as_array().context("finalizers")?;
        ensure!(finalizers.iter().any(|name| name == IMAGE_PROTECTION), "{stored}");
    }
    place.ask(Method::DELETE, &format!("{IMAGES}/leaving"), &Value::Null).await?;
    let to = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
    let from = json!([{ "namespace": "evil" }]);
    let create =
        json!({ "allowed": true, "urlPrefixes": ["https://mirror.example/public"], "maxDiskSize": "5Gi" });
    let second =
        json!({ "allowed": true, "urlPrefixes": ["https://elsewhere.example/"], "secretRefs": ["other"] });
    for (name, spec) in [
        ("references", json!({ "from": from, "to": to(&["debian", "leaving", "unborn"]) })),
        ("creation", json!({ "from": from, "to": to(&["new"]), "create": create })),
        ("other-creation", json!({ "from": from, "to": to(&["new"]), "create": second })),
        (
            "pools",
            json!({ "from": [{ "namespace": "evil", "kinds": ["VirtualMachinePool"] }], "to": to(&["for-pools"]) }),
        ),
        ("trusted", json!({ "from": [{ "namespaceSelector": { "matchLabels": { "team": "trusted" } } }] })),
    ] {
        place.ask(Method::POST, GRANTS, &grant(name, &spec)).await?;
    }
    Ok(())
}

/// Waits until the roles are aggregated and the webhook reviews images.
async fn until_reviewed(place: &TestNamespace<'_>) -> Result<()> {
    let probe = image("probe", "http://2130706433/");
    let path = format!("{OWN_IMAGES}?dryRun=All");
    eventually("the webhook reviews images", std::time::Duration::from_mins(1), async || {
        let answer = place.send_as(MALLORY, Method::POST, &path, &probe).await?;
        let reviewed = answer.as_ref().is_err_and(|status| status.message.contains("rule V1"));
        Ok(if reviewed { Ok(()) } else { Err(format!("{answer:?}")) })
    })
    .await
}

async fn refusal(
    place: &TestNamespace<'_>,
    (meaning, user, method, path, body, _): &Attack,
) -> Result<String> {
    let answer = place.send_as(user, method.clone(), path, body).await?;
    let status = answer.err().with_context(|| format!("{meaning} is accepted"))?;
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    Ok(format!("{} {causes:?}", status.message))
}

/// The table of the guide with this heading has a row for each attack, in their order.
pub(crate) fn documented<'a>(heading: &str, attacks: impl Iterator<Item = &'a str>) -> Result<()> {
    let guide = std::fs::read_to_string(workspace_root().join("docs/disk-images.md"))?;
    let table = guide.split(heading).nth(1).context("docs/disk-images.md lacks a table of attacks")?;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<&str> = rows.filter_map(|row| row.split('|').nth(1)).map(str::trim).collect();
    let attacks: Vec<&str> = attacks.collect();
    ensure!(rows == attacks, "the table in docs/disk-images.md has {rows:#?}, and the test {attacks:#?}");
    Ok(())
}

#[test]
fn every_attack_on_images_of_another_namespace_is_refused() {
    run_to_end(async {
        let (cluster, installation) =
            guarded::start("image-attacks", "diskimage", &["featureGates.DiskImages=true"]).await?;
        for (namespace, user, role) in
            [("evil", MALLORY, "edit"), ("images", EDITOR, "edit"), ("images", VIEWER, "view")]
        {
            if user != VIEWER {
                cluster.kubectl(&["create", "namespace", namespace]).await?;
            }
            let (role, user) = (format!("--clusterrole={role}"), format!("--user={user}"));
            let name = user.trim_start_matches("--user=");
            cluster.kubectl(&["create", "rolebinding", name, &role, &user, "-n", namespace]).await?;
        }
        let place = TestNamespace { cluster: &cluster, namespace: "evil" };
        until_reviewed(&place).await?;
        prepare(&place).await?;

        // What is granted works.
        let permitted = [wrapper("good", "debian"), creating("new", &json!({}))];
        for wrapper in &permitted {
            let answer = place.send_as(MALLORY, Method::POST, WRAPPERS, wrapper).await?;
            answer.map_err(|status| anyhow::anyhow!("{}", status.message))?;
        }
        let mut accepted = Vec::new();
        let attacks: Vec<Attack> = creations().into_iter().chain(changes()).collect();
        ensure!(attacks.len() >= 20, "only {} attacks", attacks.len());
        documented("| Attack | What refuses it |", attacks.iter().map(|attack| attack.0))?;
        for attack in &attacks {
            match refusal(&place, attack).await {
                Ok(text) if text.contains(attack.5) && !text.contains("hunter2") => {}
                Ok(text) => accepted.push(format!("{}: {text}", attack.0)),
                Err(error) => accepted.push(format!("{error:#}")),
            }
        }
        ensure!(accepted.is_empty(), "{}", accepted.join("\n"));

        // The answer does not show whether an image exists.
        let probe = async |image: &str| {
            let attack = ("probing", MALLORY, Method::POST, WRAPPERS.to_owned(), wrapper("p", image), "");
            refusal(&place, &attack).await
        };
        ensure!(probe("secret").await? == probe("absent").await?);

        // Deletions are never refused, also of an image that breaks a rule now, and finalizers can be
        // removed.
        let release = json!({ "metadata": { "finalizers": null } });
        place.ask(Method::PATCH, &format!("{IMAGES}/leaving"), &release).await?;
        let answer = place.send_as(EDITOR, Method::DELETE, &format!("{IMAGES}/debian"), &Value::Null).await?;
        answer.map_err(|status| anyhow::anyhow!("{}", status.message))?;
        installation.stop().await?;
        drop(cluster);
        Ok(())
    });
}
