//! The life cycle of machines: what do activations, a new image and a lifetime cost?

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    ResourceExt,
};
use serde_json::json;
use vmpool_api::v1alpha2;
use vmpool_engine::image_refresh::{DISK_SOURCES, SETTLING_TIME};
use vmpool_engine::standby::{STANDBY, StandbyPhase};
use vmpool_installation::programs::Simulator;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::RequestKey;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::usage;

use crate::lab::{Lab, POOL, controller_process_id, is_write_of_controller, seconds_between};
use crate::options::BenchOptions;
use crate::report::{BenchReport, Limit, as_f64, count_as_f64, request_count_lines};
use crate::settled;
use crate::tally::step_timeout;

/// The image from which the disks of the pool with image refresh are created.
const IMAGE: &str = "golden";

/// The share of machines that may be unavailable at once during image refresh, in percent.
const BUDGET_PERCENT: usize = 10;

/// How many times more machines have a lifetime than an image that changes.
const LIFETIME_FACTOR: usize = 10;

/// The lifetime, much longer than a run.
const LIFETIME: &str = "168h";

/// The limit of steps in which the simulator starts or deletes all machines.
const LONG_STEP: Duration = Duration::from_mins(30);

/// The interval at which the image is read.
const POLL: Duration = Duration::from_millis(200);

/// Measures standby machines, image refresh and lifetimes, each with pools of its own.
pub(crate) async fn measure_life_cycle(
    lab: &Lab,
    options: &BenchOptions,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let machine_count = options.machine_count();
    let standby_count = machine_count.div_ceil(10);
    report.add("standby_machines", as_f64(standby_count));
    measure_creation(lab, standby_count, report).await?;
    let simulator = Simulator::start_with(lab.cluster(), &["--platform=dvp"]).await?;
    measure_activation(lab, &simulator, standby_count, report).await?;
    measure_image_refresh(lab, machine_count, report).await?;
    simulator.check()?;
    simulator.stop().await?;
    measure_lifetime(lab, options, machine_count * LIFETIME_FACTOR, report).await
}

/// Creates as many machines as are activated later.
async fn measure_creation(lab: &Lab, count: usize, report: &mut BenchReport) -> anyhow::Result<()> {
    lab.step(&format!("creating {count} machines"));
    let namespace = "created";
    let controller = lab.warm_controller(namespace).await?;
    lab.pool_with(namespace, &[]).await?;
    let seconds = Lab::with_log(&controller, scale_up(lab, namespace, count)).await?;
    Lab::note(&format!("all exist after {seconds:.2} s"));
    report.add("created_seconds", seconds);
    report.add("created_objects_per_second", as_f64(count * (1 + lab.disks())) / seconds);
    delete_pool(lab, namespace).await?;
    controller.stop().await?;
    Ok(())
}

/// Activates standby machines. The simulator is paused meanwhile, so that only the API server and the
/// controller determine the speed.
async fn measure_activation(
    lab: &Lab,
    simulator: &Simulator,
    count: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    lab.step(&format!("activating {count} standby machines"));
    let namespace = "activated";
    let controller = lab.warm_controller(namespace).await?;
    let of_standby = |machine: &DynamicObject| machine.labels().get(STANDBY).cloned();
    // The label is written with the request to stop.
    let is_stopped = move |machine: &DynamicObject| {
        of_standby(machine).as_deref() == Some(StandbyPhase::Stopped.as_str())
            && machine.data["status"]["phase"] == "Stopped"
    };
    let mut stopped = lab.tally_of_machines(namespace, is_stopped).await?;
    let mut active = lab.tally_of_machines(namespace, move |machine| of_standby(machine).is_none()).await?;
    let standby = json!({ "replicas": count, "warmUpDelay": "0s" });
    lab.pool_with(namespace, &[("standby", standby)]).await?;
    Lab::with_log(&controller, stopped.reach_within(count, LONG_STEP)).await?;
    simulator.pause()?;
    let before = lab.quiet().await?;
    let begin = Instant::now();
    lab.scale(namespace, POOL, count).await?;
    let seconds = seconds_between(begin, Lab::with_log(&controller, active.reach(count)).await?);
    Lab::note(&format!("all active after {seconds:.2} s"));
    report.add("activated_seconds", seconds);
    report.add("activated_objects_per_second", as_f64(count) / seconds);
    // Other standby machines are created in their place.
    let requests = lab.quiet().await?.since(&before).only(|key| is_write_of(key, TestedKind::Machine));
    let patches = requests.only(|key| key.verb != "POST").total();
    ensure!(patches >= u64::try_from(count)?, "only {patches} of {count} standby machines were activated");
    let once = Some(Limit::AtMost(1.0));
    report.demand("writes_per_activation", count_as_f64(patches) / as_f64(count), once, once);
    simulator.resume()?;
    delete_pool(lab, namespace).await?;
    controller.stop().await?;
    Ok(())
}

/// Replaces all machines, because their image has other content.
async fn measure_image_refresh(lab: &Lab, count: usize, report: &mut BenchReport) -> anyhow::Result<()> {
    lab.step(&format!("with the simulator on, 0 -> {count} ready from an image"));
    let namespace = "refreshed";
    let controller = lab.warm_controller(namespace).await?;
    let image = GoldenImage::create(lab, namespace).await?;
    let is_ready = |machine: &DynamicObject| {
        machine.metadata.deletion_timestamp.is_none() && machine.data["status"]["phase"] == "Running"
    };
    let mut ready = lab.tally_of_machines(namespace, is_ready).await?;
    let disk = json!({ "name": "disk0", "spec": { "dataSource": {
        "type": "ObjectRef", "objectRef": { "kind": "VirtualImage", "name": IMAGE },
    } } });
    let fields = [
        ("imageRefresh", json!("Recreate")),
        ("rollout", json!({ "maxUnavailable": format!("{BUDGET_PERCENT}%") })),
        ("virtualDiskTemplates", json!([disk])),
    ];
    lab.pool_with(namespace, &fields).await?;
    lab.scale(namespace, POOL, count).await?;
    Lab::with_log(&controller, ready.reach_within(count, LONG_STEP)).await?;
    let before = lab.quiet().await?;

    lab.step(&format!("replacing {count} machines after the image has changed"));
    let old = image.uid.clone();
    let is_new = move |machine: &DynamicObject| {
        is_ready(machine) && machine.annotations().get(DISK_SOURCES).is_some_and(|text| !text.contains(&old))
    };
    let mut refreshed = lab.tally_of_machines(namespace, is_new).await?;
    ready.forget_least();
    let pid = controller_process_id(&controller)?;
    let (cpu, begin) = (usage::cpu_seconds(pid)?, Instant::now());
    image.replace().await?;
    let deadline = SETTLING_TIME + LONG_STEP;
    let end = Lab::with_log(&controller, refreshed.reach_within(count, deadline)).await?;
    let (seconds, least) = (seconds_between(begin, end), ready.least());
    let requests = lab.quiet().await?.since(&before);
    let cpu = (usage::cpu_seconds(pid)? - cpu) * 1000.0 / as_f64(count);
    Lab::note(&format!("all replaced after {seconds:.1} s, with at least {least} ready"));
    report.add("refreshed_machines", as_f64(count));
    report.add("refreshed_seconds", seconds);
    let budget = (count * BUDGET_PERCENT / 100).max(1);
    let within_budget = Some(Limit::AtLeast(as_f64(count - budget)));
    report.demand("refreshed_least_ready", as_f64(least), within_budget, within_budget);
    let writes = requests
        .only(|key| is_write_of(key, TestedKind::Machine) || is_write_of(key, TestedKind::Disk))
        .only(is_write_of_controller);
    report.detail("refresh_requests", json!(request_count_lines(&writes)));
    report.add("refreshed_cpu_seconds_per_1000", cpu);
    delete_pool(lab, namespace).await?;
    controller.stop().await?;
    Ok(())
}

/// Compares a settled pool with and without a lifetime of its machines. The simulator is off.
async fn measure_lifetime(
    lab: &Lab,
    options: &BenchOptions,
    count: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    lab.step(&format!("creating {count} machines"));
    let namespace = "aged";
    let controller = lab.warm_controller(namespace).await?;
    lab.pool_with(namespace, &[]).await?;
    Lab::with_log(&controller, scale_up(lab, namespace, count)).await?;
    lab.quiet().await?;
    report.add("aged_machines", as_f64(count));
    let pid = controller_process_id(&controller)?;
    for (figure, recycle) in
        [("rest_cpu_share", json!(null)), ("aged_rest_cpu_share", json!({ "maxLifetime": LIFETIME }))]
    {
        let patch = Patch::Merge(json!({ "spec": { "recycle": recycle } }));
        lab.pools(namespace).patch(POOL, &PatchParams::default(), &patch).await?;
        lab.quiet().await?;
        lab.step(&format!(
            "watching the settled state for {:?}, with the lifetime {recycle}",
            options.settle
        ));
        let (cpu, begin) = (usage::cpu_seconds(pid)?, Instant::now());
        let requests = settled::count_settled_requests(lab, options).await?;
        let share = (usage::cpu_seconds(pid)? - cpu) / begin.elapsed().as_secs_f64();
        Lab::note(&format!("the controller uses {share:.4} cores"));
        report.add(figure, share);
        if !recycle.is_null() {
            let nothing = Some(Limit::AtMost(0.0));
            report.demand("aged_settled_requests", count_as_f64(requests.total()), nothing, nothing);
            report.add("aged_rss_mib", usage::resident_memory(pid)?.now);
        }
    }
    controller.stop().await?;
    Ok(())
}

/// Scales the pool from 0, and returns the seconds until the last object exists.
async fn scale_up(lab: &Lab, namespace: &str, count: usize) -> anyhow::Result<f64> {
    let (mut last, objects) = lab.tally_of_last(namespace, count).await?;
    lab.quiet().await?;
    let begin = Instant::now();
    lab.scale(namespace, POOL, count).await?;
    Ok(seconds_between(begin, last.reach(objects).await?))
}

/// Deletes the pool, and waits until the garbage collector has deleted its machines and their disks.
async fn delete_pool(lab: &Lab, namespace: &str) -> anyhow::Result<()> {
    lab.pools(namespace).delete(POOL, &DeleteParams::default()).await.context("deleting the pool")?;
    for kind in [TestedKind::Machine, TestedKind::Disk] {
        lab.tally(kind, namespace).await?.reach_within(0, LONG_STEP).await?;
    }
    lab.quiet().await?;
    Ok(())
}

fn is_write_of(key: &RequestKey, kind: TestedKind) -> bool {
    key.is_write() && key.resource == kind.plural()
}

/// The image of the disks, and the UID by which machines record its content.
struct GoldenImage {
    images: Api<DynamicObject>,
    uid: String,
}

impl GoldenImage {
    async fn create(lab: &Lab, namespace: &str) -> anyhow::Result<Self> {
        let kind = GroupVersionKind::gvk(v1alpha2::GROUP, v1alpha2::VERSION, "VirtualImage");
        let resource = ApiResource::from_gvk(&kind);
        let images = Api::namespaced_with(lab.cluster().admin(), namespace, &resource);
        let uid = create_image(&images).await?;
        Ok(Self { images, uid })
    }

    /// Another image with the same name.
    async fn replace(&self) -> anyhow::Result<()> {
        self.images.delete(IMAGE, &DeleteParams::default()).await.context("deleting the image")?;
        create_image(&self.images).await?;
        Ok(())
    }
}

/// Creates the image and waits until it is ready. Returns its UID.
async fn create_image(images: &Api<DynamicObject>) -> anyhow::Result<String> {
    let spec =
        json!({ "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/golden.qcow2" } } });
    let image = json!({
        "apiVersion": v1alpha2::API_VERSION, "kind": "VirtualImage", "metadata": { "name": IMAGE }, "spec": spec,
    });
    let image: DynamicObject = serde_json::from_value(image)?;
    let deadline = Deadline::after(step_timeout(0));
    loop {
        match images.create(&PostParams::default(), &image).await {
            Ok(_) => break,
            // The one before is still being deleted.
            Err(kube::Error::Api(status)) if status.is_already_exists() && !deadline.is_over() => {
                tokio::time::sleep(POLL).await;
            }
            Err(error) => return Err(error).context("creating the image"),
        }
    }
    loop {
        let image = images.get(IMAGE).await?;
        if image.data["status"]["phase"] == "Ready" {
            return image.uid().context("an image without UID");
        }
        ensure!(!deadline.is_over(), "the image is not ready: {:?}", image.data["status"]);
        tokio::time::sleep(POLL).await;
    }
}
