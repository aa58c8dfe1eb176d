//! Writes what the current programs store into a folder, as the tests of upgrades read it: `e2e/stored`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Serialize as _;
use vmpool_explorer::recording::{StoredRecording, record_stored_objects};

/// The beginning of simulated times.
const SIMULATED_YEAR: &str = "2030-01-01T";

/// The same in the past, so that a real API server serves no objects of the future.
const STORED_YEAR: &str = "2025-01-01T";

/// Records the objects that the current programs store, on the model of the API server.
#[derive(Debug, Parser)]
struct RecordOptions {
    /// An existing folder, for example e2e/stored/COMMIT
    folder: PathBuf,
}

fn main() -> Result<()> {
    let options = RecordOptions::parse();
    for recording in record_stored_objects() {
        let path = options.folder.join(recording.name).with_extension("yaml");
        let text = format_objects(&recording)?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// One document for each object.
fn format_objects(recording: &StoredRecording) -> Result<String> {
    let mut text = Vec::new();
    let mut writer = serde_yaml_ng::Serializer::new(&mut text);
    for object in &recording.objects {
        object.serialize(&mut writer).with_context(|| format!("writing {}", recording.name))?;
    }
    let text = String::from_utf8(text).context("reading YAML")?;
    Ok(text.replace(SIMULATED_YEAR, STORED_YEAR))
}
