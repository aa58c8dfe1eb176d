//! A minimal controller that follows the rules of the removal record. It exposes violations by this program.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::Uid;
use vmpool_engine::scale_down::removal::{RESERVATION_AGE, RemovalRecord};

use super::store::FaultyServerStore;

fn metadata_text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap()
}

impl FaultyServerStore {
    /// Runs one pass over the pool `web`. Then the platform completes the deletion of terminating machines.
    pub(crate) fn reconcile(&mut self, now: Duration) {
        let Some(pool) = self.find_pool() else { return };
        let mut record = record_of(&pool);
        let machines = self.machines_of(&pool);
        let existing: BTreeSet<Uid> =
            machines.iter().map(|machine| metadata_text(machine, "uid").into()).collect();
        // Accepted targets are deleted, regardless of the policy.
        for target in
            record.accepted().filter(|target| existing.contains(&target.uid)).cloned().collect::<Vec<_>>()
        {
            self.delete_machine(&target.name, Some(target.uid.as_str()));
        }
        let vanished = record.reserved().filter(|target| !existing.contains(&target.uid)).count();
        let desired = usize::try_from(pool["spec"]["replicas"].as_i64().unwrap()).unwrap();
        let machines = self.machines_of(&pool);
        for index in machines.len() + vanished..desired {
            let name = format!("new-{}-{index}", self.created.len());
            self.create_machine(&name, &pool["metadata"]["uid"]);
            self.created.push(name);
        }
        let terminating = machines
            .iter()
            .filter(|machine| {
                !machine["metadata"]["deletionTimestamp"].is_null()
                    || record.is_accepted(&metadata_text(machine, "uid").into())
            })
            .count();
        let surplus = machines.len().saturating_sub(desired).saturating_sub(terminating);
        let others = machines.iter().filter(|machine| {
            machine["metadata"]["deletionTimestamp"].is_null()
                && !record.is_accepted(&metadata_text(machine, "uid").into())
        });
        for victim in others.take(surplus) {
            let name = metadata_text(victim, "name").to_owned();
            self.delete_machine(&name, None);
            self.victims.push(name);
        }
        self.prune(&pool, &mut record, now);
        let terminating: Vec<String> = self
            .machines()
            .iter()
            .filter(|machine| !machine["metadata"]["deletionTimestamp"].is_null())
            .map(|machine| metadata_text(machine, "name").to_owned())
            .collect();
        for name in terminating {
            self.finish(&name);
        }
    }

    /// Removes expired reservations and deleted targets from the record.
    fn prune(&mut self, pool: &Value, record: &mut RemovalRecord, now: Duration) {
        let requests: BTreeSet<String> = record.requests().into_iter().map(ToString::to_string).collect();
        self.reservations_seen_at.retain(|request, _| requests.contains(request));
        for request in &requests {
            let seen = *self.reservations_seen_at.entry(request.clone()).or_insert(now);
            if now.saturating_sub(seen) >= RESERVATION_AGE {
                record.withdraw(request);
            }
        }
        let existing: BTreeSet<Uid> =
            self.machines_of(pool).iter().map(|machine| metadata_text(machine, "uid").into()).collect();
        let gone = record
            .accepted()
            .map(|target| target.uid.clone())
            .filter(|uid| !existing.contains(uid))
            .collect();
        record.prune(&gone);
        if *record != record_of(pool) {
            self.edit_pool(|pool| {
                let annotations = pool["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.remove(SCALE_DOWN_TARGETS);
                if !record.is_empty() {
                    annotations.insert(SCALE_DOWN_TARGETS.to_owned(), json!(record.to_string()));
                }
            });
        }
    }
}

pub(crate) fn record_of(pool: &Value) -> RemovalRecord {
    let annotation = pool["metadata"]["annotations"][SCALE_DOWN_TARGETS].as_str();
    annotation.map_or_else(RemovalRecord::default, |text| RemovalRecord::parse(text).unwrap())
}
