use super::{ContainerImage, is_of, of_file};

#[test]
fn archives_of_other_programs_are_not_removed() {
    assert!(is_of("vmpool-controller-18a2f-9c4.tar", "vmpool-controller"));
    assert!(!is_of("vmpool-controller-18a2f-9c4.tar", "vmpool"));
    assert!(!is_of("vmpool-controllers-18a2f-9c4.tar", "vmpool-controller"));
    assert!(!is_of(".tmpA1b2", "vmpool-controller"));
}

#[test]
#[cfg(target_os = "linux")]
fn an_image_is_not_built_twice() {
    let own = std::env::current_exe().unwrap();
    let name = format!("image-test-{}", std::process::id());
    let ContainerImage { reference, archive } = of_file(&name, &own).unwrap();
    let made = archive.metadata().unwrap().modified().unwrap();
    assert_eq!(reference, format!("vmpool.local/{name}:test"));

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
