//! The pages under docs/ and the README document exactly the existing flags, gates, conditions, events,
//! labels, fields, probes, log messages, manifests and links. The tests need no cluster.

#![expect(clippy::unwrap_used, clippy::panic, reason = "an error in a helper fails its test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use rstest::rstest;
use vmpool_api::annotations;
use vmpool_controller::EventReason;
use vmpool_controller::metrics::ControllerMetrics;
use vmpool_controller::options::ControllerArgs;
use vmpool_engine::condition::{ConditionReason, ConditionType};
use vmpool_engine::failure::FailureReason;
use vmpool_installation::workspace_root;
use vmpool_platforms::instancetype::pins;
use vmpool_runtime::Env;
use vmpool_runtime::metrics::MetricKind;

#[path = "docs/recipes.rs"]
mod recipes;

const POOLS: &str = "docs/pools.md";
const OPERATIONS: &str = "docs/operations.md";
const ALERTS: &str = "docs/alerts.md";

/// All variants of an enum. A missing variant is a compile error.
macro_rules! all {
    ($type:ident: $($variant:ident),+ $(,)?) => {{ all!($type: $($variant),+;) }};
    // With variants that have fields.
    ($type:ident: $($variant:ident),+; $($other:pat),*) => {{
        let _ = |value: $type| match value { $($type::$variant)|+ => {} $($other => {})* };
        [$($type::$variant),+]
    }};
}

fn read(path: &str) -> String {
    let path = workspace_root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of the table whose first column has this title, without the heading.
fn table(page: &str, title: &str) -> Vec<Vec<String>> {
    let text = read(page);
    let head = format!("| {title} |");
    let cells =
        |line: &str| line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = text
        .lines()
        .skip_while(|line| !line.starts_with(&head))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    assert!(!rows.is_empty(), "{page} has no table with a first column {title:?}");
    rows
}

/// The texts between backticks.
fn code(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Fails with the items that are only in one of the two.
fn same<T: Ord + std::fmt::Debug>(
    page: &str,
    documented: impl IntoIterator<Item = T>,
    existing: impl IntoIterator<Item = T>,
) {
    let documented: BTreeSet<T> = documented.into_iter().collect();
    let existing: BTreeSet<T> = existing.into_iter().collect();
    let stale: Vec<_> = documented.difference(&existing).collect();
    let missing: Vec<_> = existing.difference(&documented).collect();
    assert!(
        stale.is_empty() && missing.is_empty(),
        "{page}\n  documented, but missing in the code: {stale:#?}\n  not documented: {missing:#?}"
    );
}

/// The texts between backticks in the first column of a table.
fn first_column(page: &str, title: &str) -> BTreeSet<String> {
    table(page, title).iter().flat_map(|row| code(&row[0])).collect()
}

/// `pub const NAME: &str = "value"` in a source file. The public constants of a module cannot be listed
/// otherwise.
fn constants(path: &str) -> BTreeSet<String> {
    let text = read(path);
    let declared =
        text.lines().filter(|line| line.trim().starts_with("pub const ") && line.contains(": &str ="));
    let values: BTreeSet<String> =
        declared.filter_map(|line| line.split('"').nth(1).map(str::to_owned)).collect();
    assert!(!values.is_empty(), "no constants in {path}");
    values
}

#[test]
fn every_flag_is_documented_with_its_variable_and_its_default() {
    let documented = table(OPERATIONS, "Flag")
        .into_iter()
        .map(|row| (code(&row[0]).concat(), code(&row[1]).concat(), code(&row[2]).concat()));
    let command = ControllerArgs::command();
    let existing = command.get_arguments().map(|flag| {
        let default = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let variable = flag.get_env().unwrap().to_string_lossy().into_owned();
        (format!("--{}", flag.get_long().unwrap()), variable, default)
    });
    same(OPERATIONS, documented, existing);
}

#[test]
fn every_feature_gate_is_documented() {
    let documented = table(OPERATIONS, "Gate")
        .into_iter()
        .map(|row| (code(&row[0]).concat(), row[1].clone(), row[2].clone()));
    let existing = vmpool_feature_gates::KNOWN
        .iter()
        .map(|gate| (gate.name.to_owned(), gate.stage.to_string(), gate.default.to_string()));
    same(OPERATIONS, documented, existing);
}

#[test]
fn every_condition_and_reason_is_documented() {
    let rows: BTreeSet<(String, String)> = table(POOLS, "Type")
        .iter()
        .flat_map(|row| code(&row[2]).into_iter().map(|reason| (code(&row[0]).concat(), reason)))
        .collect();
    let types = ConditionType::ALL.map(|kind| kind.as_str().to_owned());
    same(POOLS, rows.iter().map(|(kind, _)| kind.clone()), types);
    let reasons = ConditionReason::ALL.map(|reason| reason.as_str().to_owned());
    same(POOLS, rows.iter().map(|(_, reason)| reason.clone()), reasons);

    let failures = rows.into_iter().filter(|(kind, _)| kind == ConditionType::ReplicaFailure.as_str());
    let words = all!(FailureReason: FailedCreate, MachineLost, DiskLost, FailedDelete, DiskFailure, FailedRepair, FailedRevisionPruning, FailedTemplateUpdate,
        FailedRead, StatusDisputed);
    let words = words.map(|reason| reason.as_str().to_owned());
    same(POOLS, failures.map(|(_, reason)| reason), words);
}

#[test]
fn every_event_is_documented_with_its_type() {
    let documented = table(POOLS, "Reason").into_iter().map(|row| (code(&row[0]).concat(), row[1].clone()));
    let reasons = all!(EventReason: HealingBlocked, ProgressDeadlineExceeded, DrainBegan, DrainEnded, DrainDeadlinePassed, RestartRequested, SuccessfulCreate, Activated, FailedCreate, MachineLost, DiskLost, SuccessfulDelete, FailedDelete, DiskCreated, DiskRestored, DiskReused,
        DiskDetached, DiskDetachedByHand, DiskDeleted, DiskResized, FailedDisk, FailedRepair, FailedRevisionPruning, ReservationExpired, TemplateApplied,
        FailedTemplateUpdate, InvalidSettings, FailedRead, MachineNotStarted, OtherControllerActive, PinRepaired, ProtectionShortened;
        EventReason::TemplateUnresolved(_));
    let unresolved = pins::REASONS.map(EventReason::TemplateUnresolved);
    let kind = |reason: EventReason| if reason.is_warning() { "Warning" } else { "Normal" };
    let existing = reasons.into_iter().chain(unresolved);
    let existing = existing.map(|reason| (reason.as_str().to_owned(), kind(reason).to_owned()));
    same(POOLS, documented, existing);
}

#[test]
fn every_label_and_annotation_is_documented() {
    let documented = first_column(POOLS, "Key").into_iter().map(|key| format!("{}{key}", vmpool_api::PREFIX));
    let mut existing = constants("api/src/ext/keys.rs");
    // The keys that all platforms share are on the pages of their features.
    existing.retain(|key| key.len() > vmpool_api::PREFIX.len() && vmpool_api::is_reserved(key));
    same(POOLS, documented, existing);
}

#[test]
fn every_setting_of_the_rollout_is_documented_with_its_annotation() {
    let documented = table("docs/rollouts.md", "Setting").into_iter().map(|row| code(&row[1]).concat());
    let existing = [
        annotations::ROLLOUT_MAX_UNAVAILABLE,
        annotations::ROLLOUT_PAUSED,
        annotations::ROLLOUT_REVISION,
        annotations::REVISION_HISTORY_LIMIT,
    ];
    let existing = existing.map(|key| key.trim_start_matches(vmpool_api::PREFIX).to_owned());
    same("docs/rollouts.md", documented, existing);
}

#[test]
fn every_field_of_the_status_is_documented() {
    let definition = read("api/crds/virtualmachinepools.virtualization.deckhouse.io.yaml");
    let definition: serde_json::Value = serde_yaml_ng::from_str(&definition).unwrap();
    let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let existing = definition.pointer(fields).unwrap().as_object().unwrap().keys().cloned();
    same(POOLS, first_column(POOLS, "Field"), existing);
}

#[test]
fn every_health_check_is_documented() {
    let documented =
        table(OPERATIONS, "Check").into_iter().map(|row| (code(&row[0]).concat(), code(&row[1]).concat()));
    let source = read("controller/src/process/run.rs");
    let existing = [("/livez", "health.live(\""), ("/readyz", "health.ready(\"")]
        .into_iter()
        .flat_map(|(endpoint, call)| source.split(call).skip(1).map(move |rest| (endpoint, rest)))
        .map(|(endpoint, rest)| (rest.split('"').next().unwrap().to_owned(), endpoint.to_owned()));
    same(OPERATIONS, documented, existing);
}

#[test]
fn every_log_message_for_alerts_exists() {
    let sources: String = ["controller/src", "controller/kit/src", "runtime/src"]
        .iter()
        .flat_map(|folder| files(&workspace_root().join(folder), "rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for message in first_column(OPERATIONS, "Message") {
        assert!(sources.contains(&format!("\"{message}\"")), "no program logs {message:?}");
    }
}

#[test]
fn the_causes_of_a_stuck_rollout_and_of_a_blocked_pool_are_those_of_the_conditions() {
    let mut sources: String = files(&workspace_root().join("controller/engine/src/status"), "rs")
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    sources.push_str(&read("controller/engine/src/plan/blocker.rs"));
    for page in ["docs/rollouts.md", POOLS] {
        for part in first_column(page, "The message contains") {
            assert!(sources.contains(&part), "no condition contains {part:?} of {page}");
        }
    }
}

#[test]
fn the_page_about_metrics_is_generated_from_the_code() {
    let parts = [
        vmpool_controller::metrics::reference::controller_metrics_reference(),
        vmpool_webhook::metrics::reference::metrics_reference(),
        vmpool_apiserver::metrics_reference(),
    ];
    assert!(
        read("docs/metrics.md") == parts.concat(),
        "docs/metrics.md is out of date: run `cargo xtask generate`"
    );
}

/// Targets of log filters, which are spelled as metrics are.
const LOG_TARGETS: [&str; 2] = ["vmpool_controller", "vmpool_kit"];

#[test]
fn every_documented_metric_exists() {
    let (metrics, webhook) =
        (ControllerMetrics::new(&Env::system()), vmpool_webhook::metrics::WebhookMetrics::new());
    let apiserver = vmpool_apiserver::ApiServerMetrics::new(|_| ());
    let catalogue = [metrics.catalogue(), webhook.catalogue(), apiserver.catalogue()].concat();
    let mut exist: BTreeSet<String> = BTreeSet::new();
    for metric in &catalogue {
        if metric.kind == MetricKind::Histogram {
            exist.extend(["_bucket", "_sum", "_count"].map(|part| format!("{}{part}", metric.name)));
        }
        exist.insert(metric.name.to_owned());
    }
    // Also the labels before a brace: a panel with a misspelled label stays empty without an error.
    let labels: BTreeSet<&str> = catalogue
        .iter()
        .flat_map(|metric| &metric.labels)
        .map(|label| label.name)
        // Labels of Prometheus, of the aggregation layer, and of the scraping of Pods.
        .chain(["le", "name", "job"])
        .collect();
    let mut documented = 0;
    for page in
        [OPERATIONS, "README.md", "charts/vmpool/README.md", ALERTS, "charts/vmpool/files/alerts.yaml"]
    {
        let text = read(page);
        for word in text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')) {
            if word.starts_with("vmpool_") && !LOG_TARGETS.contains(&word) {
                documented += 1;
                assert!(exist.contains(word), "{page} contains the metric {word}, which does not exist");
            }
        }
        for label in text.split('{').skip(1).filter_map(|rest| rest.split_once("=\"")).map(|(label, _)| label)
        {
            let word = label.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
            assert!(
                !word || labels.contains(label),
                "{page} selects by the label {label}, which no metric has"
            );
        }
    }
    assert!(documented >= 8, "only {documented} metrics are documented");
}

/// Kinds of files that kube-apiserver reads when it starts, and that no client can apply. The harness starts
/// its API server with such files (`e2e/src/cluster/components.rs`), so every guarded scenario depends on
/// their form.
const FILES: &[&str] = &["AdmissionConfiguration", "Config"];

/// Kinds of other programs that the clusters of the tests do not define.
const OF_OTHERS: &[&str] = &["DataImportCron"];

#[test]
fn every_documented_manifest_is_an_example() {
    // Scenarios apply the examples to a real API server.
    let mut shown = 0;
    for (language, mark) in [("yaml", "apiVersion: "), ("json", "\"apiVersion\": ")] {
        let examples: Vec<String> = files(&workspace_root().join("docs/examples"), language)
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap().trim().to_owned())
            .collect();
        for page in pages() {
            let text = std::fs::read_to_string(&page).unwrap();
            let blocks =
                text.split(&format!("```{language}\n")).skip(1).map(str::to_owned).collect::<Vec<_>>();
            for block in blocks.iter().map(|rest| rest.split("```").next().unwrap().trim()) {
                let mut exempt = FILES.iter().chain(OF_OTHERS);
                let is_exempt = exempt.any(|kind| block.contains(&format!("\nkind: {kind}\n")));
                if !is_exempt && block.lines().any(|line| line.trim_start().starts_with(mark)) {
                    shown += 1;
                    assert!(examples.iter().any(|example| example == block), "{}:\n{block}", page.display());
                }
            }
        }
    }
    assert!(shown >= 8, "only {shown} manifests are documented");
}

#[test]
fn every_example_is_documented() {
    let root = workspace_root().join("docs");
    let pages: String = pages().iter().map(|page| std::fs::read_to_string(page).unwrap()).collect();
    for path in ["yaml", "json"].iter().flat_map(|extension| files(&root.join("examples"), extension)) {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        assert!(pages.contains(name), "no page contains {name}");
    }
}

#[test]
fn every_documented_autoscaler_has_a_documented_pool() {
    let objects: Vec<serde_json::Value> = files(&workspace_root().join("docs/examples"), "yaml")
        .iter()
        .flat_map(|path| vmpool_test_cluster::control_plane::read_yaml_documents(path).unwrap())
        .collect();
    let is_pool = |object: &serde_json::Value| object["kind"] == "VirtualMachinePool";
    let mut autoscalers = 0;
    let targets = |field: &'static str| objects.iter().map(move |object| &object["spec"][field]);
    for target in targets("scaleTargetRef").chain(targets("poolRef")).filter(|it| !it.is_null()) {
        autoscalers += 1;
        let pool = objects
            .iter()
            // A pool of each platform can have the same name.
            .find(|object| {
                is_pool(object)
                    && object["metadata"]["name"] == target["name"]
                    && object["apiVersion"] == target["apiVersion"]
            })
            .unwrap_or_else(|| panic!("{target} is no example"));
        assert_eq!(target["kind"], pool["kind"]);
    }
    assert!(autoscalers >= 8, "only {autoscalers} autoscalers");
}

/// Names of tests and of their cases in the sources of a crate.
fn tests_below(folder: &str, found: &mut BTreeSet<String>) {
    for path in files(&workspace_root().join(folder), "rs") {
        let text = std::fs::read_to_string(path).unwrap();
        // Test targets without the default harness list their tests.
        for listed in text.split("_test!(").skip(1) {
            let path = listed.split(')').next().unwrap_or_default();
            found.extend(path.rsplit("::").next().map(str::to_owned));
        }
        // Between the attribute and the name of a test are cases and the keyword async.
        for block in text
            .split("#[test]")
            .skip(1)
            .chain(text.split("#[tokio::test").skip(1))
            .chain(text.split("#[rstest]").skip(1))
        {
            let Some((before, rest)) = block.split_once("fn ") else { continue };
            let test: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            for case in before.split("#[case::").skip(1) {
                let case: String = case.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                found.insert(format!("{test}::{case}"));
            }
            found.insert(test);
        }
    }
}

#[test]
fn every_weakness_has_an_existing_test() {
    let exist = existing_tests();
    assert!(exist.len() > 500, "only {} tests are found", exist.len());
    let rows: Vec<Vec<String>> = read("docs/weaknesses.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(|line| {
            line.trim_end().trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        })
        .collect();
    let numbers: Vec<String> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(numbers, (1..=45).map(|number: i32| number.to_string()).collect::<Vec<_>>());
    for row in rows {
        assert_eq!(row.len(), 4, "{row:?}");
        let tests = code(&row[3]);
        // Two are requests for features, and the page says why they are not implemented.
        assert!(
            !tests.is_empty() || row[3] == "does not apply" && row[2].len() > 80,
            "{} has no test",
            row[0]
        );
        for test in tests {
            assert!(exist.contains(&test), "weakness {}: there is no test {test}", row[0]);
        }
    }
}

#[test]
fn every_test_on_the_page_about_extensions_exists() {
    let exist = existing_tests();
    let is_test_name = |text: &String| {
        text.contains('_') && text.chars().all(|letter| letter.is_ascii_lowercase() || "_:".contains(letter))
    };
    let mut steps = 0;
    for row in read("docs/extending.md").lines() {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        let is_step = row.starts_with("| ") && cells[0].parse::<u32>().is_ok();
        if !is_step {
            continue;
        }
        steps += 1;
        let [number, _, _, check] = cells.as_slice() else { panic!("{row}") };
        assert!(!check.is_empty(), "step {number} does not say which check fails");
        for test in code(check).into_iter().filter(is_test_name) {
            assert!(exist.contains(&test), "step {number}: there is no test {test}");
        }
    }
    assert!(steps > 40, "only {steps} steps");
}

#[test]
fn every_link_has_a_target() {
    let mut broken = Vec::new();
    for page in pages() {
        // Patterns in code look like links.
        let prose: String = std::fs::read_to_string(&page).unwrap().split('`').step_by(2).collect();
        for target in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !target.contains("://") && !leads_somewhere(&page, target) {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

fn leads_somewhere(page: &Path, target: &str) -> bool {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let file = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    let Some(anchor) = anchor else { return file.exists() };
    std::fs::read_to_string(file)
        .is_ok_and(|text| text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor))
}

/// The anchor of a heading: lower case, dashes for spaces, without punctuation.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_')).collect()
}

#[rstest]
#[case("## What it may do", "what-it-may-do")]
#[case("### `kubectl get`, and more", "kubectl-get-and-more")]
fn a_heading_has_an_anchor(#[case] heading: &str, #[case] anchor: &str) {
    assert_eq!(slug(heading), anchor);
}

/// All pages, written by hand or generated.
fn pages() -> Vec<PathBuf> {
    let root = workspace_root();
    let mut pages = files(&root.join("docs"), "md");
    pages.extend(
        [
            "README.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "CHANGELOG.md",
            "GOVERNANCE.md",
            "CODE_OF_CONDUCT.md",
            "ROADMAP.md",
            "ADOPTERS.md",
            "charts/vmpool/README.md",
        ]
        .map(|page| root.join(page)),
    );
    pages
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn the_chart_compares_the_lease_with_the_default_deadline_of_a_request() {
    let command = ControllerArgs::command();
    let flag = command.get_arguments().find(|flag| flag.get_long() == Some("request-deadline")).unwrap();
    let default = flag.get_default_values()[0].to_str().unwrap();
    for (file, text) in [
        ("charts/vmpool/templates/controller/_args.tpl", format!("\"request-deadline\" \"{default}\"")),
        ("charts/vmpool/values.schema.json", format!("the default of --request-deadline, {default}")),
        ("charts/vmpool/values.yaml", format!("`--request-deadline` ({default},")),
    ] {
        assert!(read(file).contains(&text), "{file} does not contain {text}");
    }
}

/// The tests of the whole workspace and their cases.
fn existing_tests() -> BTreeSet<String> {
    let mut exist = BTreeSet::new();
    for folder in ["api", "apiserver", "controller", "e2e", "hack", "runtime", "webhook"] {
        tests_below(folder, &mut exist);
    }
    exist
}

#[rstest]
#[case::behavior("Behavior", 60, 1)]
#[case::defects("#", 13, 3)]
#[case::races("Race", 6, 2)]
fn every_row_of_the_compatibility_with_kubevirt_has_an_existing_test(
    #[case] title: &str,
    #[case] rows: usize,
    #[case] column: usize,
) {
    let (exist, table) = (existing_tests(), table("docs/kubevirt-compatibility.md", title));
    assert!(table.len() >= rows, "only {} rows", table.len());
    for row in table {
        assert_eq!(row.len(), column + 1, "{row:?}");
        let tests = code(&row[column]);
        assert!(!tests.is_empty() || row[column].starts_with("no test: "), "{} has no test", row[0]);
        for test in tests {
            assert!(exist.contains(&test), "{}: there is no test {test}", row[0]);
        }
    }
}

#[test]
fn scenarios_do_not_use_fixed_sleeps() {
    for folder in ["scenarios", "kubevirt", "platforms"] {
        for path in files(&workspace_root().join("e2e/tests").join(folder), "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(!text.contains("time::sleep"), "{} sleeps: see vmpool_e2e::wait", path.display());
        }
    }
}
