use std::path::Path;

use super::missing::{hidden_directory_in_use, missing_packages};

#[test]
fn missing_packages_are_listed_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (bin, cni) = (folder.path().join("bin"), folder.path().join("cni"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&cni).unwrap();
    let make = |path: &Path, names: &[&str]| {
        for name in names {
            std::fs::write(path.join(name), "").unwrap();
        }
    };
    make(&bin, &["ip", "ldd", "strip"]);
    make(&cni, &["bridge", "loopback", "portmap"]);
    assert_eq!(
        missing_packages(&[&bin], &[&cni]).unwrap(),
        "a node cluster needs the packages util-linux, runc, iptables, conntrack, containernetworking-plugins",
    );
    make(&bin, &["unshare", "nsenter", "runc", "iptables", "conntrack"]);
    assert_eq!(
        missing_packages(&[&bin], &[&cni]).unwrap(),
        "a node cluster needs the packages containernetworking-plugins",
        "one of four plugins is missing",
    );
    make(&cni, &["host-local"]);
    assert_eq!(missing_packages(&[&bin], &[&cni]), None);
}

#[test]
fn a_checkout_in_a_hidden_directory_is_refused() {
    let line = hidden_directory_in_use(&[Path::new("/home/me"), Path::new("/var/lib/ci/vmpool")]).unwrap();
    assert_eq!(
        line,
        "a node cluster cannot use /var/lib/ci/vmpool, since it has a directory of its own there"
    );
    assert_eq!(hidden_directory_in_use(&[Path::new("/home/me"), Path::new("/var/library")]), None);
}
