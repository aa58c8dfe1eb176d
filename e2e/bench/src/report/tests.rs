use super::*;

fn report() -> BenchReport {
    let mut report = BenchReport::default();
    report.add("machines", 1000.0);
    report.demand("rate_ratio", 0.9, Some(Limit::AtLeast(0.85)), Some(Limit::AtLeast(0.95)));
    report.demand("rss_mib", 33.25, Some(Limit::AtMost(32.0)), Some(Limit::AtMost(20.0)));
    report.demand("settled_requests", 0.0, Some(Limit::AtMost(0.0)), Some(Limit::AtMost(0.0)));
    report.detail("raw", json!([1, 2]));
    report
}

#[test]
fn the_json_is_flat() {
    assert_eq!(
        report().to_json(),
        json!({
            "machines": 1000,
            "rate_ratio": 0.9,
            "rss_mib": 33.25,
            "settled_requests": 0,
            "details": { "raw": [1, 2] },
        })
    );
}

#[test]
fn a_missed_limit_is_counted_and_printed() {
    let report = report();
    assert_eq!(report.missed(), 1);
    let table = report.to_string();
    let verdict = |key: &str| {
        let line = table.lines().find(|line| line.contains(key)).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(verdict("rate_ratio"), "ok");
    assert_eq!(verdict("rss_mib"), "MISSED");
    assert_eq!(verdict("settled_requests"), "goal");
}

#[test]
fn a_value_equal_to_the_limit_passes() {
    assert!(Limit::AtLeast(0.85).holds(0.85) && Limit::AtMost(0.0).holds(0.0));
}
