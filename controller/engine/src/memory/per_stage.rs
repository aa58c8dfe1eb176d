//! A value for each stage of apply.

use crate::plan::action::ApplyStage;

/// The number of values.
const VALUES: usize = ApplyStage::ALL.len() - 1;

/// A value for each stage. Creates share that of the stage before, because what a create depends on fails
/// with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerStage<T>([T; VALUES]);

impl<T> PerStage<T> {
    /// The value of a stage.
    pub(crate) fn get(&self, stage: ApplyStage) -> &T {
        &self.0[stage_index(stage)]
    }

    /// The value of a stage, to change it.
    pub(crate) fn get_mut(&mut self, stage: ApplyStage) -> &mut T {
        &mut self.0[stage_index(stage)]
    }

    /// All values, each once, to change them.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

/// The place of the value of a stage.
fn stage_index(stage: ApplyStage) -> usize {
    match stage {
        ApplyStage::Relabel => 0,
        ApplyStage::Repair => 1,
        ApplyStage::Remove => 2,
        ApplyStage::Prepare | ApplyStage::Create => 3,
        ApplyStage::Update => 4,
        ApplyStage::Restart => 5,
        ApplyStage::RecordRevision => 6,
        ApplyStage::CollectDisks => 7,
        ApplyStage::ExpandDisks => 8,
        ApplyStage::CleanUp => 9,
        ApplyStage::Activate => 10,
        ApplyStage::Refill => 11,
        ApplyStage::Standby => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_a_value_of_its_own_and_creates_share_theirs() {
        let mut values = PerStage::<Vec<ApplyStage>>::default();
        for stage in ApplyStage::ALL {
            values.get_mut(stage).push(stage);
        }
        for stage in ApplyStage::ALL {
            let shared = matches!(stage, ApplyStage::Prepare | ApplyStage::Create);
            assert_eq!(values.get(stage).len(), if shared { 2 } else { 1 }, "{stage:?}");
        }
        assert!(values.values_mut().all(|stages| !stages.is_empty()));
    }
}
