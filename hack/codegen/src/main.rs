//! Generates the Rust types of vmpool-api from its CRDs.
fn main() {}
