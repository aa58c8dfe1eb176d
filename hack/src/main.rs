//! Builds the test tools, generates code, verifies the tree.
fn main() {}
