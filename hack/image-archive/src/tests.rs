use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::libraries::parse_ldd_output;
use super::*;

const IMAGE: ImageDescription<'static> = ImageDescription {
    reference: "vmpool.local/program:test",
    entrypoint: "/program",
    architecture: "amd64",
};

fn entry(path: &str, content: &str) -> ProgramFile {
    ProgramFile { path: path.to_owned(), mode: 0o755, content: content.as_bytes().to_vec() }
}

fn archive_of(files: &[ProgramFile]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_image_archive(&mut bytes, &IMAGE, files).unwrap();
    bytes
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

fn blob(files: &BTreeMap<String, (u32, Vec<u8>)>, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap();
    let content = &files[&format!("blobs/{}", digest.replace(':', "/"))].1;
    assert_eq!(digest, format!("sha256:{}", hex_digest(content)));
    assert_eq!(descriptor["size"], content.len());
    content.clone()
}

#[test]
fn an_archive_is_an_oci_layout_and_a_docker_archive() {
    let files = unpack(&archive_of(&[entry("/lib/x/libc.so.6", "library"), entry("/program", "program")]));
    assert_eq!(files["oci-layout"].1, br#"{"imageLayoutVersion":"1.0.0"}"#);
    let index: Value = serde_json::from_slice(&files["index.json"].1).unwrap();
    let descriptor = &index["manifests"][0];
    assert_eq!(descriptor["annotations"]["io.containerd.image.name"], "vmpool.local/program:test");
    assert_eq!(descriptor["annotations"]["org.opencontainers.image.ref.name"], "test");
    assert_eq!(descriptor["platform"]["architecture"], "amd64");

    let manifest: Value = serde_json::from_slice(&blob(&files, descriptor)).unwrap();
    let layer = blob(&files, &manifest["layers"][0]);
    let config: Value = serde_json::from_slice(&blob(&files, &manifest["config"])).unwrap();
    assert_eq!(config["config"]["Entrypoint"][0], "/program");
    assert_eq!(config["config"]["User"], "65532:65532", "runAsNonRoot needs a numeric user");
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hex_digest(&layer)));

    let docker: Value = serde_json::from_slice(&files["manifest.json"].1).unwrap();
    assert_eq!(docker[0]["RepoTags"][0], "vmpool.local/program:test");
    assert_eq!(files[docker[0]["Layers"][0].as_str().unwrap()].1, layer);

    let inside = unpack(&layer);
    let paths: Vec<&str> = inside.keys().map(String::as_str).collect();
    assert_eq!(paths, ["lib", "lib/x", "lib/x/libc.so.6", "program"], "parent directories are included");
    assert_eq!(inside["program"], (0o755, b"program".to_vec()));
    assert_eq!(inside["lib"].0, 0o755);
}

#[test]
fn other_artifacts_have_no_docker_manifest() {
    let blob_of = |media_type, content: &str| Blob { media_type, content: content.as_bytes().to_vec() };
    let mut bytes = Vec::new();
    let (config, layer) = (blob_of("a/config", "{}"), blob_of("a/layer", "chart"));
    write_artifact_archive(&mut bytes, "r.example/charts/vmpool:1", &config, &layer).unwrap();
    let files = unpack(&bytes);
    assert!(!files.contains_key("manifest.json"));
    let index: Value = serde_json::from_slice(&files["index.json"].1).unwrap();
    let manifest: Value = serde_json::from_slice(&blob(&files, &index["manifests"][0])).unwrap();
    assert_eq!(manifest["config"]["mediaType"], "a/config");
    assert_eq!(blob(&files, &manifest["layers"][0]), b"chart");
}

#[test]
fn libraries_are_parsed_from_the_output_of_ldd() {
    let said = "\tlinux-vdso.so.1 (0x00007ffd5b3f0000)
\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f0c0a1c5000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0c09fe4000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f0c0b5c9000)
";
    assert_eq!(
        parse_ldd_output(said).unwrap(),
        [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/x86_64-linux-gnu/libgcc_s.so.1",
            "/lib64/ld-linux-x86-64.so.2",
        ]
    );
    assert_eq!(parse_ldd_output("\tlibz.so.1 => not found\n").unwrap_err(), "libz.so.1 => not found");
}

#[test]
#[cfg(target_os = "linux")]
fn two_archives_of_the_same_program_have_the_same_bytes() {
    let own = std::env::current_exe().unwrap();
    let archive = || {
        let scratch = tempfile::tempdir().unwrap();
        archive_of(&read_program_files(&own, scratch.path()).unwrap())
    };
    assert!(archive() == archive(), "the archives differ");

    let scratch = tempfile::tempdir().unwrap();
    let files = read_program_files(&own, scratch.path()).unwrap();
    let program = files.iter().find(|file| file.path == image_path_of_program(&own)).unwrap();
    let size = u64::try_from(program.content.len()).unwrap();
    assert!(size < own.metadata().unwrap().len(), "the program was stripped");
    assert!(files.iter().any(|file| file.path.contains("libc.so")), "its libraries are included");
}

#[test]
fn the_error_for_a_missing_program_names_the_command() {
    let scratch = tempfile::tempdir().unwrap();
    let error = read_program_files(Path::new("/nowhere/absent"), scratch.path()).unwrap_err().to_string();
    assert!(error.starts_with("`strip /nowhere/absent` failed"), "{error}");
}
