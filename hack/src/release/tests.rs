use std::fs;
use std::io::Read as _;
use std::process::Command;

use super::changelog::find_version_section;
use super::chart_archive::chart_files;
use super::checksums::write_checksums;
use super::files::compress_with_gzip;
use super::images::{image_file_name, write_image};
use super::plugin::fill_krew_manifest;
use super::publish::publish_commands;
use super::*;

#[test]
fn two_images_of_the_same_program_have_the_same_bytes() {
    let program = Path::new("/bin/sh");
    let image = || {
        let out = tempfile::tempdir().unwrap();
        write_image(program, "r.example/team/", out.path()).unwrap();
        let files: Vec<_> =
            fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, [image_file_name("sh").as_str()], "no temporary file is left");
        fs::read(out.path().join(image_file_name("sh"))).unwrap()
    };
    let first = image();
    assert!(first == image(), "the images differ");
    let reference = format!("r.example/team/sh:{VERSION}");
    assert!(String::from_utf8_lossy(&first).contains(&reference), "the image is not named {reference}");
}

#[test]
fn two_archives_of_the_chart_have_the_same_bytes_and_its_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("templates")).unwrap();
    for name in ["Chart.yaml", ".helmignore", ".DS_Store", "templates/a.yaml", "templates/a.yaml.orig"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let archive = || {
        compress_with_gzip(&vmpool_image_archive::pack_files(&chart_files(folder.path()).unwrap()).unwrap())
    };
    let first = archive().unwrap();
    assert_eq!(first, archive().unwrap());
    let file = folder.path().join("chart.tgz");
    fs::write(&file, first).unwrap();
    let listed = Command::new("tar").arg("-tzf").arg(&file).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<&str> = listed.lines().collect();
    assert_eq!(
        files,
        ["vmpool", "vmpool/.helmignore", "vmpool/Chart.yaml", "vmpool/templates", "vmpool/templates/a.yaml"]
    );
}

#[test]
fn the_archive_of_the_chart_is_what_helm_reads() {
    let workspace = Workspace::locate().unwrap();
    let out = tempfile::tempdir().unwrap();
    chart_archive::write_chart(&workspace, "r.example", out.path()).unwrap();
    let mut layout = String::new();
    let mut file = fs::File::open(out.path().join(format!("vmpool-{VERSION}.oci.tar"))).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    layout.push_str(&String::from_utf8_lossy(&bytes));
    assert!(layout.contains("application/vnd.cncf.helm.chart.content.v1.tar+gzip"));
    assert!(layout.contains(&format!("r.example/charts/vmpool:{VERSION}")));
    assert!(out.path().join(format!("vmpool-{VERSION}.tgz")).is_file());
}

#[test]
fn the_section_of_a_version_is_found() {
    let text = "# Changelog\n\nIntro.\n\n## Unreleased\n\n- next\n\n## 0.10.0\n\n- ten\n\n## [0.1.0] - 2026-12-01\n\n### Added\n\n- one\n";
    assert_eq!(find_version_section(text, "0.1.0").unwrap(), "### Added\n\n- one\n");
    assert_eq!(find_version_section(text, "0.10.0").unwrap(), "- ten\n");
    assert_eq!(find_version_section(text, "0.2.0").unwrap(), "- next\n");
    assert!(find_version_section("# Changelog\n", "0.1.0").is_err());
}

#[test]
fn the_checksums_are_those_of_sha256sum() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("images")).unwrap();
    fs::write(folder.path().join("b"), "b").unwrap();
    fs::write(folder.path().join("images/a"), "a").unwrap();
    write_checksums(folder.path()).unwrap();
    let check = Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(folder.path()).output();
    assert_eq!(String::from_utf8(check.unwrap().stdout).unwrap(), "b: OK\nimages/a: OK\n");
}

#[test]
fn the_krew_manifest_names_version_and_checksum() {
    let template = fs::read_to_string(Workspace::locate().unwrap().path("cli/krew/vmpool.yaml")).unwrap();
    let manifest = fill_krew_manifest(&template, "0a1b");
    assert!(manifest.contains("sha256: 0a1b"), "{manifest}");
    assert!(manifest.contains(&format!("/v{VERSION}/{}", plugin::plugin_file_name())), "{manifest}");
    let is_left = |word: &str| manifest.contains(word);
    assert!(!["VERSION", "ARCH", "SHA256", "#"].into_iter().any(is_left), "{manifest}");
}

#[test]
fn images_and_chart_are_pushed_before_the_release_of_the_tag_is_created() {
    let files = [
        "CHANGES.md".to_owned(),
        "SHA256SUMS".to_owned(),
        format!("images/{}", image_file_name("vmpool-webhook")),
        format!("vmpool-{VERSION}.tgz"),
    ];
    let commands = publish_commands(&files, "r.example/team");
    let [image, chart, release] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(image[..2], ["skopeo", "copy"]);
    assert_eq!(image[3], format!("docker://r.example/team/vmpool-webhook:{VERSION}"));
    assert_eq!(chart[..], ["helm", "push", &files[3], "oci://r.example/team/charts"]);
    assert_eq!(release[..4], ["gh", "release", "create", &format!("v{VERSION}")]);
    assert!(files[1..].iter().all(|file| release.contains(file)), "{release:?}");
    assert!(publish_commands(&[], "r.example").is_empty());
}

#[test]
fn only_the_tag_of_the_version_is_released() {
    assert!(check_tag(None).is_ok());
    assert!(check_tag(Some(&format!("v{VERSION}"))).is_ok());
    let error = check_tag(Some("v9.9.9")).unwrap_err().to_string();
    assert!(error.contains("the tag is v9.9.9"), "{error}");
}

#[test]
fn only_a_folder_of_an_earlier_release_is_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    empty_folder(&out).unwrap();
    fs::write(out.join("mine"), "").unwrap();
    assert!(empty_folder(&out).unwrap_err().to_string().contains("choose another folder"));
    write_checksums(&out).unwrap();
    empty_folder(&out).unwrap();
    assert!(!out.join("mine").exists());
}

#[test]
fn the_manifest_gets_the_registry_of_the_release() {
    let manifest = "image: vmpool.local/vmpool-webhook:0.1.0\nother: vmpool.local/x\n";
    let wanted = "image: r.example/vmpool-webhook:0.1.0\nother: vmpool.local/x\n";
    assert_eq!(in_registry(manifest, "r.example/"), wanted);
}
