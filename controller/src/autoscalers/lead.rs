//! The leadership of autoscalers: the watches and the workers, while the cluster serves the kind.

use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use tokio_util::sync::CancellationToken;
use vmpool_api::autoscaler::PoolAutoscaler;
use vmpool_autoscaler::conflict::HpaTarget;
use vmpool_kit::controller::{Controller, WorkerGroup, run_controller};
use vmpool_kit::definitions::{Definitions, DefinitionsObserver, definition_name};
use vmpool_kit::leadership::{ConditionalLeadership, lead_on_duty};
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::passes::PassEnd;
use vmpool_kit::sink::{MapSink, Objects};
use vmpool_kit::watch::{WatchScope, list_and_watch};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;

use super::context::AutoscalerContext;
use super::pass::reconcile_autoscaler;
use super::store::read_hpa;
use crate::leadership::LeadershipResources;

/// The definitions that the controller of autoscalers needs to know.
pub(crate) fn definitions_for_autoscalers() -> Vec<String> {
    vec![definition_name::<PoolAutoscaler>()]
}

/// Reconciles autoscalers until `stop`, while the cluster has their definition.
pub(crate) async fn lead_autoscalers(
    shared: LeadershipResources,
    known: DefinitionsObserver,
    stop: CancellationToken,
) {
    lead_on_duty(WhileAutoscalersServed { shared }, known, stop).await;
}

/// The leadership while the cluster has the definition of autoscalers.
struct WhileAutoscalersServed {
    shared: LeadershipResources,
}

impl ConditionalLeadership for WhileAutoscalersServed {
    type Observed = Option<Definitions>;
    /// The UID of the definition.
    type Duty = String;

    fn find_duty(known: &Option<Definitions>) -> Option<String> {
        known.as_ref()?.uid(&definition_name::<PoolAutoscaler>()).cloned()
    }

    async fn lead(&mut self, _definition: String, stop: CancellationToken) {
        tracing::info!("reconciling autoscalers");
        let context = Arc::new(AutoscalerContext::new(&self.shared));
        context.hub.on_change({
            let context = Arc::downgrade(&context);
            move |autoscaler| {
                if let Some(context) = context.upgrade() {
                    context.queue.wake(autoscaler);
                }
            }
        });
        self.shared.metrics().autoscalers.follow({
            let context = Arc::downgrade(&context);
            move || context.upgrade().map(|context| context.shown())
        });
        run_controller(context, self.shared.leader_health().workers(), Vec::new(), stop).await;
    }

    fn duty_changed(&self) {
        tracing::info!("the definition of autoscalers has changed: the caches are filled again");
    }
}

impl Controller for AutoscalerContext {
    fn env(&self) -> &Env {
        &self.leader.env
    }

    fn is_synced(&self) -> bool {
        self.has_all_lists()
    }

    fn start_watches(self: &Arc<Self>) -> Vec<Task> {
        vec![watch_autoscalers(self), watch_hpas(self)]
    }

    fn worker_groups(&self) -> Vec<WorkerGroup<Self>> {
        vec![WorkerGroup::new(
            "worker of autoscalers",
            self.workers,
            |context: &Self| &context.queue,
            |context, key| reconcile_autoscaler(context, key).map(PassEnd::from).boxed(),
        )]
    }
}

fn watch_autoscalers(context: &Arc<AutoscalerContext>) -> Task {
    let shown = context.clone();
    let mut is_first = true;
    let sink = MapSink::new(
        |object: PoolAutoscaler| Some(Arc::new(object)),
        move |objects: &Objects<Arc<PoolAutoscaler>>| {
            let changed = shown.store.set_autoscalers(objects);
            changed.keys.iter().for_each(|key| shown.queue.wake(key));
            if is_first || changed.concerns_others {
                announce_list(&shown, &mut is_first);
            }
        },
    );
    spawn_watch(context, "watch of autoscalers", sink)
}

fn watch_hpas(context: &Arc<AutoscalerContext>) -> Task {
    let shown = context.clone();
    let mut is_first = true;
    let sink = MapSink::new(
        |hpa: HorizontalPodAutoscaler| read_hpa(&hpa),
        move |hpas: &Objects<HpaTarget>| {
            if shown.store.set_hpas(hpas) {
                announce_list(&shown, &mut is_first);
            }
        },
    );
    spawn_watch(context, "watch of HorizontalPodAutoscalers", sink)
}

/// Wakes the autoscalers after a change, and counts the first list.
fn announce_list(context: &AutoscalerContext, is_first: &mut bool) {
    if std::mem::take(is_first) {
        context.list_ended();
    } else {
        context.wake_all();
    }
}

fn spawn_watch<K>(
    context: &Arc<AutoscalerContext>,
    task: &'static str,
    sink: impl vmpool_kit::sink::Sink<K> + Send + 'static,
) -> Task
where
    K: vmpool_kit::sink::Watched + kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    let (env, client) = (context.leader.env.clone(), &context.leader.client);
    let api = api_for_namespace::<K>(client, context.leader.namespace.as_deref());
    context.leader.env.spawn(task, list_and_watch(api, env, WatchScope::default(), sink))
}
