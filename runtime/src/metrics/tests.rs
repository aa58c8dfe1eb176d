use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::{
    FloatGauge, InfoMetric, Label, LabelValue, MetricKind, MetricLabels, MetricsPage, MetricsRegistry,
    Values, add_known_series, family_with_series, histogram_family,
};
use crate::{label_set, label_values, metric_table};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Color {
    color: &'static str,
}

impl MetricLabels for Color {
    fn labels() -> Vec<Label> {
        vec![Label {
            name: "color",
            values: Values::Fixed(vec![("red", "The color red."), ("blue", "The color blue.")]),
        }]
    }
}

#[test]
fn metrics_are_encoded_under_their_registered_names() {
    let mut registry = MetricsRegistry::new();
    let cars =
        registry.register("road_cars_total", "cars", "Cars that passed", Family::<Color, Counter>::default());
    cars.get_or_create(&Color { color: "red" }).inc();
    registry.register("road_free", "lanes", "Lanes that are free", Gauge::<i64>::default()).set(2);
    registry.register("road_age_seconds", "seconds", "Age", FloatGauge::default()).set(1.5);
    registry.register("road_gap_seconds", "seconds", "Gaps", Histogram::new([1.0])).observe(0.5);
    registry.register("road_info", "", "Which road", InfoMetric::new(Color { color: "blue" }));
    let page = registry.encode();
    for line in [
        "# HELP road_cars Cars that passed.",
        "# TYPE road_cars counter",
        "road_cars_total{color=\"red\"} 1",
        "road_free 2",
        "# UNIT road_age_seconds seconds",
        "road_age_seconds 1.5",
        "road_gap_seconds_bucket{le=\"1.0\"} 1",
        "road_gap_seconds_count 1",
        "road_info{color=\"blue\"} 1",
    ] {
        assert!(page.lines().any(|other| other == line), "{line} is missing in\n{page}");
    }
    assert!(page.ends_with("# EOF\n"), "{page}");
}

#[test]
fn a_page_contains_process_metrics_and_refreshed_gauges() {
    let mut registry = MetricsRegistry::new();
    let lanes = registry.register("road_free", "lanes", "Lanes that are free", Gauge::<i64>::default());
    let page = MetricsPage::new(registry, "1.2.3");
    let text = page.encode(|| {
        lanes.set(3);
    });
    for line in [
        "road_free 3",
        "vmpool_build_info{version=\"1.2.3\"} 1",
        "# UNIT process_resident_memory_bytes bytes",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is missing in\n{text}");
    }
    let names: Vec<&str> = page.catalogue().iter().map(|metric| metric.name).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("road_free", "vmpool_build_info"));
}

#[test]
fn the_catalogue_describes_the_registered_metrics() {
    let mut registry = MetricsRegistry::new();
    registry.register("cars_total", "cars", "Cars", Family::<Color, Counter>::default());
    registry.register("gap_seconds", "seconds", "Gaps", Histogram::new([1.0]));
    let [cars, gap] = registry.catalogue() else { panic!("{:?}", registry.catalogue()) };
    assert_eq!((cars.name, cars.kind, cars.unit), ("cars_total", MetricKind::Counter, "cars"));
    assert_eq!(cars.labels, Color::labels());
    assert_eq!((gap.kind, gap.labels.len(), gap.help), (MetricKind::Histogram, 0, "Gaps"));
}

label_values!(
    /// The side of a road.
    Side {
        /// The left side.
        Left => "left",
        /// The right side.
        Right => "right",
    }
);

label_values!(
    /// What moves on a road.
    Traffic {
        /// A car.
        Car => "car",
        /// A bicycle.
        Bicycle => "bicycle",
    }
);

// The values are not known in advance.
impl LabelValue for u32 {
    fn values() -> Values {
        Values::Open("the speed")
    }
}

label_set!(TrafficLabels { side: Side, traffic: Traffic });
label_set!(SpeedLabels { side: Side, speed: u32 });

metric_table!(
    #[derive(Debug)]
    struct RoadMetrics {
        /// What passed the road. Animals are
        /// not counted.
        passed: Family<TrafficLabels, Counter> = "road_passed_total" in "objects", family_with_series();
        /// Speeds on the road.
        speeds: Family<SpeedLabels, Counter> = "road_speeds_total" in "objects", family_with_series();
        /// Gaps.
        gaps: Family<TrafficLabels, Histogram> = "road_gap_seconds" in "seconds",
            add_known_series(histogram_family(|| Histogram::new([1.0])));
        /// Free lanes.
        free: Gauge = "road_free" in "lanes";
    } with { note: String }
);

#[test]
fn a_table_registers_its_rows_in_their_order() {
    let mut registry = MetricsRegistry::new();
    let metrics = RoadMetrics::new(&mut registry);
    assert_eq!(metrics.note, "");
    let rows: Vec<_> = registry.catalogue().iter().map(|row| (row.name, row.unit, row.help)).collect();
    assert_eq!(
        rows,
        [
            ("road_passed_total", "objects", "What passed the road. Animals are not counted"),
            ("road_speeds_total", "objects", "Speeds on the road"),
            ("road_gap_seconds", "seconds", "Gaps"),
            ("road_free", "lanes", "Free lanes"),
        ]
    );
    metrics.free.set(2);
    metrics.passed.get_or_create(&TrafficLabels { side: Side::Left, traffic: Traffic::Car }).inc();
    metrics.speeds.get_or_create(&SpeedLabels { side: Side::Left, speed: 50 }).inc();
    metrics.gaps.get_or_create(&TrafficLabels { side: Side::Right, traffic: Traffic::Car }).observe(0.5);
    assert!(registry.encode().contains("road_free 2\n"), "{}", registry.encode());
}

#[test]
fn series_with_known_labels_exist_from_the_start() {
    let mut registry = MetricsRegistry::new();
    RoadMetrics::new(&mut registry);
    let page = registry.encode();
    for side in ["left", "right"] {
        for traffic in ["car", "bicycle"] {
            let labels = format!("{{side=\"{side}\",traffic=\"{traffic}\"}} 0");
            for name in ["road_passed_total", "road_gap_seconds_count"] {
                assert!(page.contains(&format!("{name}{labels}")), "{name}{labels} is missing in\n{page}");
            }
        }
    }
    assert!(!page.contains("road_speeds_total"), "the speeds are not known in advance:\n{page}");
}
