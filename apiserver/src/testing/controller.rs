//! The controller's part, by the rules of the record: whatever breaks them in an answer of ours shows here.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::Uid;
use vmpool_engine::removal::{RESERVATION_AGE, RemovalRecord};

use super::store::Store;

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap()
}

impl Store {
    /// One pass over `web`, then the platform lets dying machines go.
    pub(crate) fn reconcile(&mut self, now: Duration) {
        let Some(pool) = self.find_pool() else { return };
        let mut record = record_of(&pool);
        let members = self.members(&pool);
        let alive: BTreeSet<Uid> = members.iter().map(|machine| text(machine, "uid").into()).collect();
        // Accepted targets leave, whatever the policy.
        for target in
            record.accepted().filter(|target| alive.contains(&target.uid)).cloned().collect::<Vec<_>>()
        {
            self.delete_machine(&target.name, Some(target.uid.as_str()));
        }
        let vanished = record.reserved().filter(|target| !alive.contains(&target.uid)).count();
        let desired = usize::try_from(pool["spec"]["replicas"].as_i64().unwrap()).unwrap();
        let members = self.members(&pool);
        for index in members.len() + vanished..desired {
            let name = format!("new-{}-{index}", self.created.len());
            self.create_machine(&name, &pool["metadata"]["uid"]);
            self.created.push(name);
        }
        let leaving = members
            .iter()
            .filter(|machine| {
                !machine["metadata"]["deletionTimestamp"].is_null()
                    || record.is_accepted(&text(machine, "uid").into())
            })
            .count();
        let surplus = members.len().saturating_sub(desired).saturating_sub(leaving);
        let others = members.iter().filter(|machine| {
            machine["metadata"]["deletionTimestamp"].is_null()
                && !record.is_accepted(&text(machine, "uid").into())
        });
        for victim in others.take(surplus) {
            let name = text(victim, "name").to_owned();
            self.delete_machine(&name, None);
            self.victims.push(name);
        }
        self.tidy(&pool, &mut record, now);
        let dying: Vec<String> = self
            .machines()
            .iter()
            .filter(|machine| !machine["metadata"]["deletionTimestamp"].is_null())
            .map(|machine| text(machine, "name").to_owned())
            .collect();
        for name in dying {
            self.finish(&name);
        }
    }

    /// Drops reservations that are too old and accepted targets that are gone.
    fn tidy(&mut self, pool: &Value, record: &mut RemovalRecord, now: Duration) {
        let requests: BTreeSet<String> = record.requests().into_iter().map(ToString::to_string).collect();
        self.seen.retain(|request, _| requests.contains(request));
        for request in &requests {
            let seen = *self.seen.entry(request.clone()).or_insert(now);
            if now.saturating_sub(seen) >= RESERVATION_AGE {
                record.withdraw(request);
            }
        }
        let alive: BTreeSet<Uid> =
            self.members(pool).iter().map(|machine| text(machine, "uid").into()).collect();
        let gone =
            record.accepted().map(|target| target.uid.clone()).filter(|uid| !alive.contains(uid)).collect();
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
