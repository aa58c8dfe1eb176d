//! Many disk images with references: what does counting cost, and what does a deletion read?

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use vmpool_installation::programs::Simulator;
use vmpool_test_cluster::control_plane::RequestCounts;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::usage;

use crate::lab::{Lab, controller_process_id, is_write_of_controller, seconds_between};
use crate::options::BenchOptions;
use crate::report::{BenchReport, Limit, as_f64, count_as_f64};
use crate::settled;

const NAMESPACE: &str = "images";
const IMAGES: &str = "/apis/vmpool.dev/v1alpha1/namespaces/images/vmdiskimages";
const MACHINES: &str = "/apis/kubevirt.io/v1/namespaces/images/virtualmachines";
const SOURCES: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/images/datasources";

/// The kinds that the controller lists before it deletes an image.
const LISTED: [&str; 6] = [
    "wrappedvirtualmachines",
    "virtualmachines",
    "virtualmachinepools",
    "controllerrevisions",
    "datavolumes",
    "vmdiskimagegrants",
];

/// Objects in one page of a list.
const PAGE: usize = 500;
/// Number of concurrent requests of the benchmark.
const CREATES: usize = 8;
/// Interval at which the benchmark looks at the images.
const POLL: Duration = Duration::from_millis(500);

/// Imports the images, creates the references, deletes an image, and reports the figures.
pub(crate) async fn measure_disk_images(
    lab: &Lab,
    images: usize,
    options: &BenchOptions,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let references = options.references;
    report.add("images", as_f64(images));
    report.add("references_per_image", as_f64(references));
    lab.step(&format!("importing {images} images"));
    lab.namespace(NAMESPACE).await?;
    let client = lab.cluster().admin();
    let flags = ["--platform=kubevirt".to_owned(), format!("--namespace={NAMESPACE}")];
    let flags = flags.each_ref().map(String::as_str);
    let simulator = Simulator::start_with(lab.cluster(), &flags).await?;
    let controller = lab.controller(NAMESPACE, "first").await?;
    let pid = controller_process_id(&controller)?;
    let begin = Instant::now();
    create(&client, IMAGES, (0..images).map(|number| image(&name(number)))).await?;
    let is_ready = |image: &Value| image["status"]["phase"] == "Ready";
    let synced = Lab::with_log(&controller, until_all(&client, images, is_ready)).await?;
    report.add("synced_seconds", seconds_between(begin, synced));
    lab.quiet().await?;
    // About a third above what was measured.
    let with = |most: f64| (images <= 1_000 && references <= 10).then_some(Limit::AtMost(most));
    report.demand("images_rss_mib", usage::resident_memory(pid)?.now, with(56.0), None);
    // The simulator would give each machine a disk.
    drop(simulator);

    lab.step(&format!("creating {references} references to each image"));
    let before = lab.quiet().await?;
    let (cpu, begin) = (usage::cpu_seconds(pid)?, Instant::now());
    let machines = (0..images).flat_map(|image| (0..references).map(move |number| machine(image, number)));
    create(&client, MACHINES, machines).await?;
    let created = Instant::now();
    let is_counted = |image: &Value| image["status"]["referenceCount"] == references;
    let counted = Lab::with_log(&controller, until_all(&client, images, is_counted)).await?;
    let after = lab.quiet().await?;
    let requests = after.since(&before);
    let total = as_f64(images * references).max(1.0);
    report.add("reference_creates_seconds", seconds_between(begin, created));
    report.add("counted_seconds", seconds_between(created, counted));
    let cpu = (usage::cpu_seconds(pid)? - cpu) * 1000.0 / total;
    report.demand("count_cpu_seconds_per_1000", cpu, Some(Limit::AtMost(0.4)), None);
    let status = requests.only(|key| is_write_of_controller(key) && key.resource == "vmdiskimages");
    report.add("status_writes_per_reference", count_as_f64(status.total()) / total);
    let nothing = Some(Limit::AtMost(0.0));
    // The benchmark lists images only.
    report.demand("count_reads", count_as_f64(reads(&requests)), nothing, nothing);
    let memory = usage::resident_memory(pid)?;
    report.demand("images_referenced_rss_mib", memory.now, with(88.0), None);
    report.add("images_peak_rss_mib", memory.peak);
    let settled = settled::count_settled_requests(lab, options).await?.total();
    report.demand("images_settled_requests", count_as_f64(settled), nothing, nothing);

    lab.step("deleting an image");
    let before = lab.quiet().await?;
    delete(&client, &format!("{IMAGES}/{}", name(0))).await?;
    let blocked = lab.quiet().await?;
    report.demand("lists_while_referenced", count_as_f64(lists(&blocked.since(&before))), nothing, nothing);
    for number in 0..references {
        delete(&client, &format!("{MACHINES}/{}", machine_name(0, number))).await?;
    }
    // Without the simulator, no program removes the finalizers of the snapshot. The DataSource goes first,
    // after the lists.
    let deadline = Deadline::after(Duration::from_mins(2));
    while get(&client, &format!("{SOURCES}/{}", name(0))).await?.is_some() {
        ensure!(!deadline.is_over(), "the image is not deleted; {}", controller.log_tail(10));
        tokio::time::sleep(POLL).await;
    }
    let deleted = lab.quiet().await?;
    // One list of each kind: machines and the DataVolumes of images in pages.
    let pages = |objects: usize| objects.div_ceil(PAGE).max(1);
    let once = LISTED.len() - 2 + pages(images * references) + pages(images);
    let once = Some(Limit::AtMost(as_f64(once)));
    report.demand("lists_of_deletion", count_as_f64(lists(&deleted.since(&blocked))), once, once);
    controller.stop().await?;
    Ok(())
}

fn name(number: usize) -> String {
    format!("image-{number:04}")
}

fn machine_name(image: usize, number: usize) -> String {
    format!("{}-{number}", name(image))
}

fn image(name: &str) -> Value {
    json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage", "metadata": { "name": name },
        "spec": { "sourceType": "blank", "diskSize": "1Gi" },
    })
}

/// A stopped machine whose disk is a clone of the image.
fn machine(image: usize, number: usize) -> Value {
    let machine = machine_name(image, number);
    let disk = format!("{machine}-root");
    let source = json!({ "kind": "DataSource", "name": name(image) });
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": { "name": machine },
        "spec": {
            "runStrategy": "Halted",
            "dataVolumeTemplates": [{ "metadata": { "name": disk }, "spec": { "storage": {}, "sourceRef": source } }],
            "template": { "spec": {
                "domain": { "devices": { "disks": [{ "name": "root" }] } },
                "volumes": [{ "name": "root", "dataVolume": { "name": disk } }],
            } },
        },
    })
}

/// Lists and reads of single objects, but for those of images.
fn reads(requests: &RequestCounts) -> u64 {
    requests.only(|key| is_read(&key.verb) && LISTED.contains(&&*key.resource)).total()
}

fn is_read(verb: &str) -> bool {
    ["GET", "LIST"].contains(&verb)
}

fn lists(requests: &RequestCounts) -> u64 {
    requests.only(|key| key.verb == "LIST" && LISTED.contains(&&*key.resource)).total()
}

async fn create(client: &Client, path: &str, objects: impl Iterator<Item = Value>) -> anyhow::Result<()> {
    futures::stream::iter(objects)
        .map(|object| async move {
            let request = Request::post(path).header("content-type", "application/json");
            let request = request.body(serde_json::to_vec(&object)?)?;
            client.request::<Value>(request).await.map(drop).with_context(|| format!("creating {object}"))
        })
        .buffer_unordered(CREATES)
        .try_collect()
        .await
}

async fn delete(client: &Client, path: &str) -> anyhow::Result<()> {
    let request = Request::delete(path).body(Vec::new())?;
    client.request::<Value>(request).await.map(drop).with_context(|| format!("deleting {path}"))
}

async fn get(client: &Client, path: &str) -> anyhow::Result<Option<Value>> {
    match client.request(Request::get(path).body(Vec::new())?).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until all images are as wanted.
async fn until_all(
    client: &Client,
    images: usize,
    wanted: impl Fn(&Value) -> bool,
) -> anyhow::Result<Instant> {
    let deadline = Deadline::after(Duration::from_mins(10));
    loop {
        let list = get(client, IMAGES).await?.unwrap_or_default();
        let found = list["items"].as_array().into_iter().flatten().filter(|image| wanted(image)).count();
        if found == images {
            return Ok(Instant::now());
        }
        ensure!(!deadline.is_over(), "{found} of {images} images after {deadline:?}");
        tokio::time::sleep(POLL).await;
    }
}
