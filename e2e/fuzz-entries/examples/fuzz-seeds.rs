//! Writes the samples of each fuzz target into a folder with its name: `cargo run --example fuzz-seeds --
//! fuzz/corpus`.

use std::fs;
use std::io;
use std::path::Path;

use vmpool_fuzz_entries::FUZZ_TARGETS;
use vmpool_fuzz_entries::seeds::Seeds;

fn main() -> io::Result<()> {
    let folder =
        std::env::args_os().nth(1).ok_or_else(|| io::Error::other("name the folder of the corpus"))?;
    let seeds = Seeds::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))?;
    for entry in FUZZ_TARGETS {
        let corpus = Path::new(&folder).join(entry.name);
        fs::create_dir_all(&corpus)?;
        for (index, seed) in seeds.of(entry.name).into_iter().enumerate() {
            fs::write(corpus.join(format!("sample-{index:03}")), seed)?;
        }
    }
    Ok(())
}
