//! The reads of a review.

use serde_json::Value;

use super::dry_run::{DryRun, DryRunResult};
use super::lookup::{LookupOutcome, ObjectLookup};
use super::reads::{Needs, Reads, Step, join_steps};

/// What a review needs.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionRead {
    /// An object, or all objects of a resource.
    Object(ObjectLookup),
    /// The validation of an object by the API server.
    DryRun(DryRun),
}

/// What was read for a review.
#[derive(Clone, Debug, Default)]
pub struct AdmissionReads {
    may_reveal: bool,
    objects: Reads<ObjectLookup, Option<LookupOutcome<Value>>>,
    dry_run: Option<DryRunResult>,
}

impl AdmissionReads {
    /// No reads. `may_reveal` says whether the answer may show facts that the requesting user may have no
    /// permission to read.
    pub fn new(may_reveal: bool) -> Self {
        Self { may_reveal, ..Self::default() }
    }

    /// Whether the answer may show facts that the requesting user may have no permission to read.
    pub fn may_reveal(&self) -> bool {
        self.may_reveal
    }

    /// Whether this object is not read, because the answer would reveal facts of it.
    pub fn withholds(&self, lookup: &ObjectLookup) -> bool {
        lookup.reveals && !self.may_reveal
    }

    /// The object of a lookup; `None` if the program does not read it, because the answer would reveal facts
    /// of it, or because it has read enough objects of its subject.
    ///
    /// # Errors
    /// It was not read.
    pub fn object(&self, lookup: &ObjectLookup) -> Step<Option<&LookupOutcome<Value>>, AdmissionRead> {
        if self.withholds(lookup) {
            return Ok(None);
        }
        let found = self.objects.find(lookup);
        found.map(Option::as_ref).map_err(|Needs(needs)| {
            let needs = needs.into_iter().map(AdmissionRead::Object);
            Needs(needs.collect())
        })
    }

    /// The objects of lookups, in their order.
    ///
    /// # Errors
    /// Some were not read.
    pub fn objects<'l>(
        &self,
        lookups: impl IntoIterator<Item = &'l ObjectLookup>,
    ) -> Step<Vec<Option<&LookupOutcome<Value>>>, AdmissionRead> {
        join_steps(lookups.into_iter().map(|lookup| self.object(lookup)))
    }

    /// The result of the dry run of a review; `None` if the program sends none, because the result would
    /// reveal how the platform validates objects of other clients. A review has at most one.
    ///
    /// # Errors
    /// It was not sent.
    pub fn dry_run(&self, dry_run: DryRun) -> Step<Option<&DryRunResult>, AdmissionRead> {
        match &self.dry_run {
            _ if !self.may_reveal => Ok(None),
            None => Err(Needs(vec![AdmissionRead::DryRun(dry_run)])),
            result => Ok(result.as_ref()),
        }
    }

    /// Adds the result of a lookup; `None` if the program does not read the object.
    pub fn add_object(&mut self, lookup: ObjectLookup, found: Option<LookupOutcome<Value>>) {
        self.objects.insert(lookup, found);
    }

    /// Adds the result of the dry run.
    pub fn add_dry_run(&mut self, result: DryRunResult) {
        self.dry_run = Some(result);
    }
}

#[cfg(test)]
mod tests;
