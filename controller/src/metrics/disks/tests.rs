use rstest::rstest;
use vmpool_engine::ObjectId;
use vmpool_engine::model::{DiskState, StoredTime};

use super::*;

fn disk() -> Disk {
    Disk::blank(ObjectId::new("web-data-x7k2pq", "d"))
}

fn now() -> StoredTime {
    StoredTime::At(jiff::Timestamp::UNIX_EPOCH)
}

#[rstest]
#[case::it_is_unused(|_: &mut Disk| {}, false, DiskUse::Free)]
#[case::a_machine_refers_to_it(|_: &mut Disk| {}, true, DiskUse::InUse)]
#[case::it_is_mounted(|disk: &mut Disk| disk.mounted_by = Some("web-1".into()), false, DiskUse::InUse)]
#[case::it_is_promised(|disk: &mut Disk| disk.annotations.claimed_by = Some("web-1".into()), false, DiskUse::Claimed)]
#[case::it_was_promised_and_is_there(|disk: &mut Disk| disk.annotations.claimed_by = Some("web-1".into()), true, DiskUse::InUse)]
#[case::it_failed(|disk: &mut Disk| disk.state = DiskState::Failed, false, DiskUse::Broken)]
#[case::it_is_lost_and_marked(|disk: &mut Disk| { disk.state = DiskState::Lost; disk.annotations.collecting_since = Some(now()); }, false, DiskUse::Broken)]
#[case::it_failed_and_a_machine_has_it(|disk: &mut Disk| disk.state = DiskState::Failed, true, DiskUse::InUse)]
#[case::it_is_marked(|disk: &mut Disk| disk.annotations.collecting_since = Some(now()), false, DiskUse::Collecting)]
#[case::it_is_on_its_way_out(|disk: &mut Disk| disk.terminating = true, true, DiskUse::Terminating)]
fn a_disk_counts_once(#[case] edit: fn(&mut Disk), #[case] referred: bool, #[case] expected: DiskUse) {
    let mut disk = disk();
    edit(&mut disk);
    assert_eq!(use_of(&disk, referred), expected);
}

#[test]
fn counts_of_pools_add_up() {
    let mut sum = DiskCounts::default();
    for _ in 0..2 {
        sum.add(&DiskCounts { states: [1, 2, 3, 4, 5, 6], endless: 7 });
    }
    assert_eq!(sum, DiskCounts { states: [2, 4, 6, 8, 10, 12], endless: 14 });
}
