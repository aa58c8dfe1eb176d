//! The output of the commands.

use std::io::{BufRead, BufReader};

use jiff::Timestamp;

use super::directory::{PlaygroundDirectory, PlaygroundKind, Ready};
use super::output::{PROGRESS, say};

/// Prints how to use the playground, and commands to try.
pub(crate) fn what_to_try(place: &PlaygroundDirectory, ready: &Ready) {
    say!(
        "
  export KUBECONFIG={}
  export PATH={}:$PATH

What to try:

{}
Logs are in {}. `{}` ends it.",
        place.kubeconfig().display(),
        place.programs().display(),
        commands_to_try(place.kind(), ready.has_kubevirt),
        place.cluster().display(),
        place.kind().target("down"),
    );
}

/// Commands to try, one on each line.
fn commands_to_try(kind: PlaygroundKind, has_kubevirt: bool) -> &'static str {
    match kind {
        PlaygroundKind::Loopback if has_kubevirt => IDEAS_ALL,
        PlaygroundKind::Loopback => IDEAS_DVP,
        PlaygroundKind::Node => IDEAS_NODE,
    }
}

const IDEAS_DVP: &str = "  kubectl apply -f docs/examples/quickstart.yaml
  kubectl get vmpool,vm,vd
  kubectl vmpool status quickstart
  kubectl scale vmpool quickstart --replicas=10
  kubectl annotate vm --all simulator.vmpool.dev/flap-phase=2

The webhook refuses to lower the count of an Explicit pool; the aggregated API removes the machines that you name:

  kubectl patch vmpool quickstart --type=merge --patch='{\"spec\":{\"scaleDownPolicy\":\"Explicit\"}}'
  kubectl scale vmpool quickstart --replicas=1
  kubectl vmpool remove quickstart $(kubectl get vm -o jsonpath='{.items[0].metadata.name}')

docs/playground.md is a tour with more. For KubeVirt pools, disk images and instance types, run `make down`, then
`PLATFORM=all make up`.";

/// With both platforms, the short names `vm` and `vmpool` are ambiguous.
const IDEAS_ALL: &str = "  kubectl apply -f docs/examples/quickstart.yaml
  kubectl get virtualmachinepools.virtualization.deckhouse.io,virtualmachines.virtualization.deckhouse.io
  kubectl vmpool status virtualmachinepools.virtualization.deckhouse.io/quickstart

  kubectl apply -f docs/examples/kubevirt/quickstart.yaml
  kubectl get virtualmachinepools.pool.kubevirt.io,virtualmachines.kubevirt.io,datavolumes
  kubectl vmpool status virtualmachinepools.pool.kubevirt.io/quickstart

  kubectl apply -f docs/examples/kubevirt/instance-types.yaml
  kubectl apply -f docs/examples/disk-images/image.yaml

docs/playground-kubevirt.md is a tour of KubeVirt pools, disk images, instance types and claims. The tour in
docs/playground.md uses short names, so it needs a playground without KubeVirt: run `make down`, then `make up`.";

const IDEAS_NODE: &str = "  kubectl get pods --all-namespaces
  kubectl apply -f docs/examples/quickstart.yaml
  kubectl get vmpool,vm,vd
  kubectl vmpool status quickstart
  kubectl -n vmpool-system delete pod --all
  kubectl -n vmpool-system logs deployment/vmpool-controller

docs/development.md tells what this cluster has and what not.";

/// A time in whole seconds.
pub(crate) fn format_timestamp(when: Timestamp) -> String {
    when.strftime("%F %T UTC").to_string()
}

/// Marks each line as output of another program.
pub(crate) fn indent_program_output(text: &str) -> String {
    text.lines().map(|line| format!("  | {line}")).collect::<Vec<_>>().join("\n")
}

/// The lines of the supervisor's log that report progress.
pub(crate) struct ProgressLog {
    log: Option<BufReader<std::fs::File>>,
    line: String,
}

impl ProgressLog {
    /// Starts at the beginning of the log.
    pub(crate) fn of(place: &PlaygroundDirectory) -> Self {
        let log = std::fs::File::open(place.log()).ok().map(BufReader::new);
        Self { log, line: String::new() }
    }

    /// Prints the lines that were written since the last call.
    pub(crate) fn show(&mut self) {
        let Some(log) = &mut self.log else { return };
        // An incomplete line is kept for the next call.
        while log.read_line(&mut self.line).is_ok_and(|read| read > 0) && self.line.ends_with('\n') {
            if self.line.starts_with(PROGRESS) {
                say!("{}", self.line.trim_end());
            }
            self.line.clear();
        }
    }
}
