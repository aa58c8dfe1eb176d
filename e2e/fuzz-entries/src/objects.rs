//! Objects of users, as the caches and the passes read them.

use std::hint::black_box;

use jiff::Timestamp;
use vmpool_controller::fuzzing::decode_object;
use vmpool_engine::membership::losses::Rehearsal;
use vmpool_engine::model::Draft;
use vmpool_platforms::{
    AttachmentOf, DiskOf, Disks, Finalizers, MachineStorage, Platform, PlatformName, with_platform,
};

/// Reads a pool of each platform, and makes the identity of its template and a machine from it.
pub fn decode_pool(input: &[u8]) {
    for name in PlatformName::ALL {
        with_platform!(name, P => pool_of::<P>(input));
    }
}

fn pool_of<P: Platform>(input: &[u8]) {
    let Ok(pool) = decode_object::<P::Pool>(input) else { return };
    let facts = P::read_pool(&pool);
    let template = P::template(&pool);
    let canonical = P::canonical(&template);
    assert_eq!(P::canonical(&canonical), canonical, "a canonical form has no other one");
    let revision = P::first_revision(&pool, &facts);
    black_box((
        P::managed_labels(&pool),
        P::Finalizers::add_to_pool(&pool),
        P::Finalizers::remove_from_pool(&pool),
    ));
    let draft = Draft {
        name: "web-7".into(),
        number: 7,
        revision,
        disks: Vec::new(),
        rehearsal: Rehearsal::None,
        standby: None,
    };
    black_box(P::machine(&pool, &template, &draft));
}

/// Reads a machine of each platform, and makes the patches that need nothing else.
pub fn decode_machine(input: &[u8]) {
    for name in PlatformName::ALL {
        with_platform!(name, P => machine_of::<P>(input));
    }
}

fn machine_of<P: Platform>(input: &[u8]) {
    let Ok(machine) = decode_object::<P::Machine>(input) else { return };
    let facts = P::read_machine(&machine);
    black_box((
        facts.is_protected(Timestamp::UNIX_EPOCH),
        facts.held_disks().count(),
        facts.revisions().count(),
    ));
    black_box((P::release(&machine), P::Finalizers::add(&machine), P::Finalizers::remove(&machine)));
    black_box((P::Storage::volumes(&machine), P::Storage::claims(&machine)));
}

/// Reads a disk and an attachment of each platform that has disks.
pub fn decode_disk(input: &[u8]) {
    for name in PlatformName::ALL {
        with_platform!(name, P => disk_of::<P>(input));
    }
}

fn disk_of<P: Platform>(input: &[u8]) {
    if let Ok(disk) = decode_object::<DiskOf<P>>(input) {
        let facts = P::Disks::read(&disk);
        black_box(P::Disks::annotations(&facts.annotations));
        black_box(P::Disks::transfer(&disk, &facts.id));
    }
    if let Ok(attachment) = decode_object::<AttachmentOf<P>>(input) {
        black_box(P::Disks::read_attachment(&attachment));
    }
}
