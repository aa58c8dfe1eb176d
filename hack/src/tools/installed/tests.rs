//! Programs on a fake PATH. Each file contains what the program would print about its version.

use rstest::rstest;
use tempfile::TempDir;

use super::super::catalogue::MODULES;
use super::*;

const GO_MOD: &str =
    "go 1.26.0\nrequire (\n\tgo.etcd.io/etcd/server/v3 v3.6.8\n\tk8s.io/kubernetes v1.36.3\n)\n";

const ETCD: (&str, &str) = ("etcd", "etcd Version: 3.6.5\nGit SHA: 1234567\nGo Version: go1.24.1\n");
const API_SERVER: (&str, &str) = ("kube-apiserver", "Kubernetes v1.36.0\n");
const CONTROLLER_MANAGER: (&str, &str) = ("kube-controller-manager", "Kubernetes v1.36.1\n");

/// A folder with these programs.
fn folder_of(programs: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, printed) in programs {
        fs::write(folder.path().join(name), printed).unwrap();
    }
    folder
}

fn find(required: &[&TempDir], others: &[&TempDir]) -> ProgramSearch {
    let paths = |folders: &[&TempDir]| folders.iter().map(|folder| folder.path().to_owned()).collect();
    let folders = SearchedFolders { required: paths(required), others: paths(others) };
    let wanted = WantedVersions::of(&GoModFile::parse(GO_MOD.to_owned()).unwrap()).unwrap();
    find_programs(MODULES[0].tools, &folders, &wanted, |_name, path| Ok(fs::read_to_string(path)?))
}

/// The names and versions of the programs that were found.
fn usable(found: &ProgramSearch) -> Vec<(&str, &str)> {
    match found {
        ProgramSearch::Usable(programs) => {
            programs.iter().map(|program| (program.name, program.version.as_str())).collect()
        }
        ProgramSearch::Missing(_) | ProgramSearch::Unsupported(_) => panic!("{found:?}"),
    }
}

#[test]
fn matching_programs_on_the_path_are_used() {
    let folder = folder_of(&[ETCD, API_SERVER, CONTROLLER_MANAGER, ("kubectl", "Client Version: v1.35.2\n")]);
    let found = find(&[&folder], &[&folder]);
    assert_eq!(
        usable(&found),
        [
            ("etcd", "3.6.5"),
            ("kube-apiserver", "v1.36.0"),
            ("kube-controller-manager", "v1.36.1"),
            ("kubectl", "v1.35.2"),
        ]
    );
}

/// Kubebuilder's folder has no kube-controller-manager.
#[test]
fn programs_that_kubebuilder_lacks_are_taken_from_the_path_or_left_to_the_build() {
    let assets = folder_of(&[ETCD, API_SERVER]);
    let path = folder_of(&[CONTROLLER_MANAGER, ("kubectl", "Client Version: v1.30.0\n")]);
    let found = find(&[&assets], &[&assets, &path]);
    let names: Vec<&str> = usable(&found).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["etcd", "kube-apiserver", "kube-controller-manager"], "kubectl is too old");
}

#[test]
fn a_required_program_is_not_taken_from_elsewhere() {
    let (assets, path) = (folder_of(&[ETCD]), folder_of(&[API_SERVER]));
    assert_eq!(find(&[&assets], &[&assets, &path]), ProgramSearch::Missing("kube-apiserver"));
    assert_eq!(find(&[], &[]), ProgramSearch::Missing("etcd"));
}

#[rstest]
#[case::an_older_server(ETCD, ("kube-apiserver", "Kubernetes v1.35.9\n"), "v1.35.9, but 1.36 is needed")]
#[case::a_newer_server(ETCD, ("kube-apiserver", "Kubernetes v1.37.0\n"), "v1.37.0, but 1.36 is needed")]
#[case::an_older_etcd(("etcd", "etcd Version: 3.5.21\n"), API_SERVER, "3.5.21, but 3.6 is needed")]
#[case::no_version(ETCD, ("kube-apiserver", "help\n"), "does not print its version")]
fn an_unsupported_version_is_one_line(
    #[case] etcd: (&str, &str),
    #[case] server: (&str, &str),
    #[case] reason: &str,
) {
    let folder = folder_of(&[etcd, server]);
    let found = find(&[&folder], &[&folder]);
    let ProgramSearch::Unsupported(line) = found else { panic!("{found:?}") };
    assert!(line.contains(reason), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn the_links_lead_to_installed_programs_and_otherwise_to_built_ones() {
    let (host, target) = (folder_of(&[ETCD, API_SERVER]), tempfile::tempdir().unwrap());
    let ProgramSearch::Usable(installed) = find(&[&host], &[&host]) else { panic!("the versions match") };
    let (links, built) = (target.path().join("demo/bin"), target.path().join("control-plane/bin"));
    link_programs(&links, MODULES[0].tools, &[], &built).unwrap();
    link_programs(&links, MODULES[0].tools, &installed, &built).unwrap();
    let led = |name: &str| fs::read_link(links.join(name)).unwrap();
    assert_eq!(led("server"), host.path().join("etcd"));
    assert_eq!(led("kube-apiserver"), host.path().join("kube-apiserver"));
    assert_eq!(led("kube-controller-manager"), built.join("kube-controller-manager"));
    assert_eq!(led("kubectl"), built.join("kubectl"));
    assert_eq!(fs::read_dir(&links).unwrap().count(), 4);
}
