use std::path::PathBuf;
use std::time::SystemTime;

use super::cgroups::Cgroups;

/// Plain folders instead of hierarchies. The tests write the kernel's files.
fn hierarchies(parent: &std::path::Path) -> Vec<PathBuf> {
    let roots = ["cpu", "cpuset", "memory"].map(|name| parent.join(name));
    for root in &roots {
        std::fs::create_dir_all(root).unwrap();
    }
    roots.to_vec()
}

#[test]
fn a_node_has_a_folder_in_every_hierarchy_until_it_is_dropped() {
    let parent = tempfile::tempdir().unwrap();
    let roots = hierarchies(parent.path());
    let first = Cgroups::create_in(roots.clone()).unwrap();
    let second = Cgroups::create_in(roots.clone()).unwrap();
    assert_ne!(first.name(), second.name());
    for root in &roots {
        assert!(root.join(first.name()).join("holder").is_dir());
        std::fs::create_dir_all(root.join(first.name()).join("kubepods/besteffort/pod1")).unwrap();
    }
    let name = first.name().to_owned();
    drop(first);
    assert!(roots.iter().all(|root| !root.join(&name).exists()));
    assert!(roots.iter().all(|root| root.join(second.name()).exists()));
}

#[test]
fn the_holder_enters_folders_that_accept_it() {
    let parent = tempfile::tempdir().unwrap();
    let cgroups = Cgroups::create_in(hierarchies(parent.path())).unwrap();
    let cpuset = parent.path().join("cpuset").join(cgroups.name()).join("holder");
    std::fs::write(cpuset.join("cpuset.effective_cpus"), "").unwrap();
    let holders = cgroups.holders();
    assert_eq!(holders.len(), 2, "a cpuset without CPUs accepts no process: {holders:?}");
    std::fs::remove_file(cpuset.join("cpuset.effective_cpus")).unwrap();
}

#[test]
fn only_folders_of_dead_nodes_are_removed() {
    let parent = tempfile::tempdir().unwrap();
    let roots = hierarchies(parent.path());
    let long_ago = SystemTime::now() - std::time::Duration::from_hours(1);
    let make = |number: u32, age: SystemTime| {
        for root in &roots {
            let folder = root.join(format!("vmpool-node-{number}"));
            std::fs::create_dir_all(folder.join("holder")).unwrap();
            std::fs::File::open(&folder).unwrap().set_modified(age).unwrap();
        }
    };
    make(10, long_ago);
    make(11, long_ago);
    make(12, SystemTime::now());
    // A process in one hierarchy shows that the node is alive.
    std::fs::write(roots[2].join("vmpool-node-11/holder/cgroup.procs"), "4711\n").unwrap();

    let _own = Cgroups::create_in(roots.clone()).unwrap();
    let left =
        |number: u32| roots.iter().filter(|root| root.join(format!("vmpool-node-{number}")).exists()).count();
    assert_eq!(left(10), 0, "no process is in it");
    assert_eq!(left(11), 3, "a process is in it");
    assert_eq!(left(12), 3, "a process may be about to enter it");
}
