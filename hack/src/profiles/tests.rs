use std::path::PathBuf;
use std::time::Duration;

use super::{
    Figures, MeasuredVariant, VARIANTS, folder_name, format_table, median_value, profile_flags, read_figures,
    select_variants,
};

#[test]
fn variants_with_one_profile_share_a_build() {
    let folders: Vec<String> = VARIANTS[..4].iter().map(folder_name).collect();
    assert_eq!(folders, ["release", "release", "opt-level-3", "opt-level-3"]);
    assert_eq!(
        profile_flags(&VARIANTS[5]),
        ["--config", "profile.release.lto=\"thin\"", "--config", "profile.release.codegen-units=4"]
    );
    assert!(profile_flags(&VARIANTS[0]).is_empty(), "the profile of the release");
}

#[test]
fn variants_are_selected_by_name() {
    assert_eq!(select_variants(&[]).unwrap().len(), VARIANTS.len());
    let selected = select_variants(&["thin".to_owned()]).unwrap();
    assert_eq!(selected.iter().map(|variant| variant.name).collect::<Vec<_>>(), ["thin"]);
    let error = select_variants(&["slim".to_owned()]).unwrap_err().to_string();
    assert!(error.starts_with("there is no variant slim, but release, "), "{error}");
}

#[test]
fn figures_are_read_from_the_report_of_the_benchmark() {
    let text = r#"{"rss_mib":26.1,"cpu_seconds_per_1000":0.4,"rate_ratio":1,"details":{}}"#;
    assert_eq!(read_figures(text), Some(Figures { rss_mib: 26.1, cpu_seconds: 0.4, rate_ratio: 1.0 }));
    assert_eq!(read_figures(r#"{"rss_mib":26.1}"#), None);
}

#[test]
fn the_table_has_the_medians() {
    let run = |rss_mib| Figures { rss_mib, cpu_seconds: 0.5, rate_ratio: 0.98 };
    let measured = MeasuredVariant {
        variant: &VARIANTS[2],
        program: PathBuf::new(),
        built_within: Duration::from_mins(14),
        size: 25 << 20,
        figures: vec![run(30.0), run(24.4), run(24.1)],
    };
    let table = format_table(&[measured]);
    assert!(table.ends_with("| `fast` | 25600 KiB | 24.4 | 0.50 | 0.98 | 840 s |\n"), "{table}");
    assert_eq!(median_value(vec![2.0, 1.0]).to_bits(), 2.0_f64.to_bits());
}
