//! Generates a random sequence of operations.

use vmpool_runtime::testing::SeededRandom;

use crate::kind::{ConformanceKind, Name, ObjectTarget};
use crate::operation::{
    ConformanceChange, ConformanceOperation, NumberedOperation, PatchFormat, Precondition, ScaleMethod,
    SelectorWithLabels, ServerField, Since,
};

const SELECTORS: [SelectorWithLabels; 10] = [
    SelectorWithLabels("", &[]),
    SelectorWithLabels("app=web", &[("app", "web")]),
    SelectorWithLabels("app==db", &[("app", "db")]),
    SelectorWithLabels("app", &[("app", "web")]),
    SelectorWithLabels("!app", &[("tier", "front")]),
    SelectorWithLabels("app!=web", &[("app", "db")]),
    SelectorWithLabels("app in (web,other)", &[("app", "web")]),
    SelectorWithLabels("app notin (web, other)", &[]),
    SelectorWithLabels("app=web,tier=front", &[("app", "web"), ("tier", "front")]),
    SelectorWithLabels("tier in (front),app!=db", &[("tier", "front")]),
];

const LABELS: [&[(&str, &str)]; 5] =
    [&[], &[("app", "web")], &[("app", "db")], &[("app", "web"), ("tier", "front")], &[("tier", "front")]];

const FINALIZERS: [&[&str]; 5] =
    [&[], &[], &["test.dev/one"], &["test.dev/one", "test.dev/two"], &["test.dev/two"]];

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Generates a sequence.
pub(crate) struct Generator {
    random: SeededRandom,
    /// Objects that may exist: most operations target one of them.
    known: Vec<ObjectTarget>,
    steps: Vec<NumberedOperation>,
}

impl Generator {
    /// The sequence of a seed.
    pub(crate) fn sequence(seed: u64) -> Vec<NumberedOperation> {
        let mut generator = Self { random: SeededRandom::new(seed), known: Vec::new(), steps: Vec::new() };
        let length = generator.random.number(10..=25);
        while generator.steps.len() as u64 <= length {
            let (id, op) = (generator.steps.len(), generator.op());
            if let ConformanceOperation::Create { kind, name, dry: false, .. } = op {
                let name = name.map_or(Name::Of(id), Name::Given);
                generator.known.push(ObjectTarget { kind, name });
            }
            generator.steps.push(NumberedOperation { id, op });
        }
        let mut steps = generator.steps;
        block_owners_with_finalizers(&mut steps);
        steps
    }

    fn below(&self, end: u64) -> u64 {
        self.random.number(0..=end - 1)
    }

    fn percent(&self, of: u64) -> bool {
        self.below(100) < of
    }

    fn one<T: Clone>(&self, of: &[T]) -> T {
        self.random.one(of).expect("a table that is not empty").clone()
    }

    fn kind(&self) -> ConformanceKind {
        match self.below(16) {
            0..=3 => ConformanceKind::Pool,
            4..=8 => ConformanceKind::Machine,
            9..=12 => ConformanceKind::Disk,
            13 => ConformanceKind::Revision,
            14 => ConformanceKind::Lease,
            _ => ConformanceKind::Event,
        }
    }

    fn target(&self) -> ObjectTarget {
        if self.known.is_empty() || self.percent(8) {
            ObjectTarget { kind: self.kind(), name: Name::Given(self.one(&NAMES)) }
        } else {
            self.one(&self.known)
        }
    }

    fn target_of(&self, kinds: &[ConformanceKind]) -> Option<ObjectTarget> {
        let known: Vec<ObjectTarget> =
            self.known.iter().filter(|target| kinds.contains(&target.kind)).copied().collect();
        (!known.is_empty()).then(|| self.one(&known))
    }

    fn op(&self) -> ConformanceOperation {
        if self.known.len() < 2 {
            return self.create();
        }
        match self.below(100) {
            0..=19 => self.create(),
            20..=24 => {
                let target = self.target();
                let subresource = if self.percent(30) { self.one(&["status", "scale"]) } else { "" };
                ConformanceOperation::Get { target, subresource }
            }
            25..=33 => self.list(),
            34..=37 => ConformanceOperation::Continue { limit: self.below(3) },
            38..=48 => self.put(),
            49..=71 => self.patch(),
            72..=77 => self.scale(),
            78..=93 => self.delete(),
            _ => self.watch(),
        }
    }

    fn create(&self) -> ConformanceOperation {
        let kind = self.kind();
        let name = (!self.percent(15)).then(|| self.one(&NAMES));
        let mut with = Vec::new();
        if self.percent(50) {
            with.push(ConformanceChange::Labels(self.one(&LABELS)));
        }
        if self.percent(25) {
            with.push(ConformanceChange::Finalizers(self.one(&FINALIZERS)));
        }
        if self.percent(70) {
            with.extend(self.owners(kind));
        }
        if self.percent(20) {
            with.push(ConformanceChange::Status(self.below(4)));
        }
        if self.percent(10) {
            use ServerField::{Created, Deleted, Generation, Namespace, SelfLink, Uid, Version};
            with.push(ConformanceChange::ServerSet(
                self.one(&[Generation, Created, Deleted, Namespace, SelfLink, Version, Uid]),
            ));
        }
        ConformanceOperation::Create { kind, name, shape: self.below(4), with, dry: self.percent(5) }
    }

    /// Owners of an object of this kind. A machine always blocks the deletion of its owner, because it may
    /// own disks: otherwise the propagation policy of its own deletion would depend on the timing.
    fn owners(&self, kind: ConformanceKind) -> Option<ConformanceChange> {
        if kind.owners().is_empty() {
            return None;
        }
        if self.percent(2) {
            return Some(ConformanceChange::TwoControllers);
        }
        if self.percent(1) {
            return Some(ConformanceChange::UnknownOwner);
        }
        let mut owners = Vec::new();
        for _ in 0..=self.below(2) {
            let target = if self.percent(6) { None } else { self.target_of(kind.owners()) };
            let again = target.is_some() && owners.iter().any(|(other, _)| *other == target);
            if !again {
                owners.push((target, kind == ConformanceKind::Machine || self.percent(60)));
            }
        }
        Some(ConformanceChange::Owners(owners))
    }

    fn change(&self, kind: ConformanceKind) -> ConformanceChange {
        match self.below(100) {
            0..=5 => ConformanceChange::Nothing,
            6..=22 => ConformanceChange::Labels(self.one(&LABELS)),
            23..=31 => ConformanceChange::Annotation((!self.percent(30)).then(|| self.below(3))),
            32..=48 => ConformanceChange::Finalizers(self.one(&FINALIZERS)),
            49..=58 => self.owners(kind).unwrap_or(ConformanceChange::Nothing),
            59..=76 => ConformanceChange::Content(self.below(4)),
            77..=84 => ConformanceChange::Status(self.below(4)),
            85..=91 => ConformanceChange::Both(self.below(4)),
            _ => {
                use ServerField::{Created, Generation, Name, Namespace};
                ConformanceChange::ServerSet(self.one(&[Generation, Created, Name, Namespace]))
            }
        }
    }

    fn precondition(&self) -> Precondition {
        match self.below(10) {
            0..=5 => Precondition::None,
            6..=7 => Precondition::Current,
            _ => Precondition::Outdated,
        }
    }

    fn subresource(&self, kind: ConformanceKind) -> &'static str {
        if self.percent(if kind.has_status() { 30 } else { 3 }) { "status" } else { "" }
    }

    fn put(&self) -> ConformanceOperation {
        let target = self.target();
        let version = match self.below(10) {
            0 => Precondition::None,
            1..=2 => Precondition::Outdated,
            _ => Precondition::Current,
        };
        let uid = match self.below(10) {
            0..=1 => Precondition::None,
            2 => Precondition::Outdated,
            _ => Precondition::Current,
        };
        let (change, subresource) = (self.change(target.kind), self.subresource(target.kind));
        ConformanceOperation::Put { target, subresource, change, uid, version, dry: self.percent(4) }
    }

    /// The object that an earlier step deleted.
    fn dying(&self) -> Option<ObjectTarget> {
        let deleted = self.steps.iter().rev().find_map(|step| match step.op {
            ConformanceOperation::Delete { target, .. } => Some(target),
            _ => None,
        });
        deleted.filter(|_| self.percent(30))
    }

    fn patch(&self) -> ConformanceOperation {
        if let Some(target) = self.dying() {
            // Only its finalizers can still change.
            let change = ConformanceChange::Finalizers(self.one(&FINALIZERS));
            let (format, none) = (PatchFormat::Merge, Precondition::None);
            return ConformanceOperation::Patch {
                target,
                subresource: "",
                format,
                change,
                uid: none,
                version: none,
                dry: false,
            };
        }
        let target = self.target();
        ConformanceOperation::Patch {
            target,
            subresource: self.subresource(target.kind),
            format: if self.percent(60) { PatchFormat::Merge } else { PatchFormat::Json },
            change: self.change(target.kind),
            uid: self.precondition(),
            version: self.precondition(),
            dry: self.percent(4),
        }
    }

    fn scale(&self) -> ConformanceOperation {
        let target = if self.percent(90) { self.target_of(&[ConformanceKind::Pool]) } else { None };
        let method = self.one(&[
            ScaleMethod::Put,
            ScaleMethod::Patch(PatchFormat::Merge),
            ScaleMethod::Patch(PatchFormat::Json),
        ]);
        ConformanceOperation::Scale {
            target: target.unwrap_or_else(|| self.target()),
            method,
            replicas: i64::try_from(self.below(5)).expect("a small number") - i64::from(self.percent(10)),
            uid: self.precondition(),
            version: self.precondition(),
        }
    }

    fn delete(&self) -> ConformanceOperation {
        let target = match self.target_of(&[ConformanceKind::Pool, ConformanceKind::Machine]) {
            Some(owner) if self.percent(50) => owner,
            _ => self.target(),
        };
        let policy = self.one(&[None, Some("Background"), Some("Foreground"), Some("Orphan")]);
        let precondition = || if self.percent(60) { Precondition::None } else { self.precondition() };
        ConformanceOperation::Delete {
            target,
            policy,
            uid: precondition(),
            version: precondition(),
            dry: self.percent(4),
        }
    }

    fn list(&self) -> ConformanceOperation {
        let selector = if self.percent(40) { SELECTORS[0] } else { self.one(&SELECTORS) };
        let name = self.percent(10).then(|| self.target().name);
        ConformanceOperation::List {
            kind: self.target().kind,
            selector,
            name,
            limit: if self.percent(50) { 1 + self.below(2) } else { 0 },
        }
    }

    fn watch(&self) -> ConformanceOperation {
        let since = match self.below(10) {
            0..=2 => Since::Start,
            3 => Since::TooOld,
            4..=5 => Since::Now,
            _ => Since::Step(self.one(&self.steps).id),
        };
        let kind = match since {
            // The other kinds are built in and exist from the first version on, so no version has expired for
            // them.
            Since::TooOld => {
                self.one(&[ConformanceKind::Pool, ConformanceKind::Machine, ConformanceKind::Disk])
            }
            _ => self.kind(),
        };
        ConformanceOperation::Watch { kind, since, selector: self.one(&SELECTORS) }
    }
}

/// Makes owners that may have finalizers of users wait for their dependents. An owner without blocking
/// dependents leaves the foreground deletion at once. If it then remains because of a finalizer, the result
/// for its dependents depends on the timing.
fn block_owners_with_finalizers(steps: &mut [NumberedOperation]) {
    let mut with_finalizers = Vec::new();
    for step in &*steps {
        match &step.op {
            ConformanceOperation::Create { kind, name, with, .. }
                if with.iter().any(ConformanceChange::adds_finalizers) =>
            {
                let name = name.map_or(Name::Of(step.id), Name::Given);
                with_finalizers.push(ObjectTarget { kind: *kind, name });
            }
            ConformanceOperation::Put { target, change, .. }
            | ConformanceOperation::Patch { target, change, .. }
                if change.adds_finalizers() =>
            {
                with_finalizers.push(*target);
            }
            _ => {}
        }
    }
    for step in steps {
        let changes = match &mut step.op {
            ConformanceOperation::Create { with, .. } => with.as_mut_slice(),
            ConformanceOperation::Put { change, .. } | ConformanceOperation::Patch { change, .. } => {
                std::slice::from_mut(change)
            }
            _ => &mut [],
        };
        for change in changes {
            if let ConformanceChange::Owners(owners) = change {
                for (owner, blocks) in owners {
                    *blocks |= owner.is_some_and(|owner| with_finalizers.contains(&owner));
                }
            }
        }
    }
}
