use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::archive::{self, LayerFile};
use super::{ContainerImage, is_of, libraries, of_file};

fn entry(path: &str, content: &str) -> LayerFile {
    LayerFile { path: path.to_owned(), content: content.as_bytes().to_vec() }
}

/// The files of an archive, with their modes.
fn unpack(bytes: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 0, "the same files give the same bytes");
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let path = entry.path().unwrap().display().to_string();
            (path, (entry.header().mode().unwrap(), content))
        })
        .collect()
}

#[test]
fn an_archive_contains_layer_configuration_and_manifest() {
    let layer = [entry("/lib/x/libc.so.6", "library"), entry("/program", "program")];
    let mut bytes = Vec::new();
    archive::write_image_archive(&mut bytes, "vmpool.local/program:test", "/program", &layer).unwrap();
    let files = unpack(&bytes);

    let manifest: Value = serde_json::from_slice(&files["manifest.json"].1).unwrap();
    assert_eq!(manifest[0]["RepoTags"][0], "vmpool.local/program:test");
    let layer = &files[manifest[0]["Layers"][0].as_str().unwrap()].1;
    let name = manifest[0]["Config"].as_str().unwrap();
    let configuration = &files[name].1;
    let hex = |bytes: &[u8]| {
        Sha256::digest(bytes).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    };
    assert_eq!(name, format!("{}.json", hex(configuration)));

    let configuration: Value = serde_json::from_slice(configuration).unwrap();
    assert_eq!(configuration["config"]["Entrypoint"][0], "/program");
    assert_eq!(configuration["config"]["User"], "65532:65532", "runAsNonRoot needs a numeric user");
    assert_eq!(configuration["rootfs"]["diff_ids"][0], format!("sha256:{}", hex(layer)));

    let inside = unpack(layer);
    let paths: Vec<&str> = inside.keys().map(String::as_str).collect();
    assert_eq!(paths, ["lib", "lib/x", "lib/x/libc.so.6", "program"], "parent directories are included");
    assert_eq!(inside["program"], (0o755, b"program".to_vec()));
    assert_eq!(inside["lib"].0, 0o755);

    let mut again = Vec::new();
    let layer = [entry("/lib/x/libc.so.6", "library"), entry("/program", "program")];
    archive::write_image_archive(&mut again, "vmpool.local/program:test", "/program", &layer).unwrap();
    assert_eq!(bytes, again);
}

#[test]
fn libraries_are_parsed_from_the_output_of_ldd() {
    let said = "\tlinux-vdso.so.1 (0x00007ffd5b3f0000)
\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f0c0a1c5000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0c09fe4000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f0c0b5c9000)
";
    assert_eq!(
        libraries::parse_ldd_output(said).unwrap(),
        [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/x86_64-linux-gnu/libgcc_s.so.1",
            "/lib64/ld-linux-x86-64.so.2",
        ]
    );
    assert_eq!(
        libraries::parse_ldd_output("\tlibz.so.1 => not found\n").unwrap_err(),
        "libz.so.1 => not found"
    );
}

#[test]
fn archives_of_other_programs_are_not_removed() {
    assert!(is_of("vmpool-controller-18a2f-9c4.tar", "vmpool-controller"));
    assert!(!is_of("vmpool-controller-18a2f-9c4.tar", "vmpool"));
    assert!(!is_of("vmpool-controllers-18a2f-9c4.tar", "vmpool-controller"));
    assert!(!is_of(".tmpA1b2", "vmpool-controller"));
}

#[test]
#[cfg(target_os = "linux")]
fn an_image_contains_the_program_and_its_libraries() {
    let own = std::env::current_exe().unwrap();
    let name = format!("image-test-{}", std::process::id());
    let ContainerImage { reference, archive } = of_file(&name, &own).unwrap();
    let made = archive.metadata().unwrap().modified().unwrap();
    assert_eq!(reference, format!("vmpool.local/{name}:test"));

    let files = unpack(&std::fs::read(&archive).unwrap());
    let inside = unpack(&files["layer.tar"].1);
    let program = own.file_name().unwrap().to_str().unwrap();
    assert!(
        inside[program].1.len() < own.metadata().unwrap().len().try_into().unwrap(),
        "the program was stripped"
    );
    assert!(inside.keys().any(|path| path.contains("libc.so")), "{:?}", inside.keys());

    let again = of_file(&name, &own).unwrap();
    assert_eq!(again.archive.metadata().unwrap().modified().unwrap(), made, "the image is not built twice");
    std::fs::remove_file(archive).unwrap();
}

#[test]
fn the_error_for_a_missing_program_names_the_command() {
    let error = of_file("absent", std::path::Path::new("/nowhere/absent")).unwrap_err().to_string();
    assert_eq!(
        error,
        "/nowhere/absent does not exist, but the image absent needs it: run `cargo build --workspace --bins` first"
    );
}
