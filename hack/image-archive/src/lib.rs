//! Writes container images and charts as files, without a container engine.
//!
//! A file is an OCI layout in a tar archive, and also has the manifest of `docker save`, so containerd, kind,
//! k3s and Docker import it. The same input gives the same bytes: entries are sorted, and have neither owners
//! nor times.

mod error;
mod layer;
mod libraries;
mod oci;
mod pack;
#[cfg(test)]
mod tests;

pub use self::error::ImageError;
pub use self::layer::{ProgramFile, image_path_of_program, read_program_files};
pub use self::oci::{Blob, ImageDescription, host_architecture, write_artifact_archive, write_image_archive};
pub use self::pack::{hex_digest, pack_files};
