//! A plot of a replay: replicas, busy machines and waiting claims over the time.

use std::fmt::Write as _;

use super::{ReplayResult, ReplaySample};

const WIDTH: u64 = 960;
const HEIGHT: u64 = 320;
/// The space for the labels at the left and at the bottom.
const MARGIN: u64 = 40;

/// Renders the plot as SVG.
pub fn render_svg(result: &ReplayResult) -> String {
    let last = result.samples.last().map_or(1, |sample| sample.second).max(1);
    let highest = |sample: &ReplaySample| sample.replicas.max(sample.busy).max(sample.waiting);
    let top = result.samples.iter().map(highest).max().unwrap_or(1).max(1);
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" font-size="12">"#,
        WIDTH + 2 * MARGIN,
        HEIGHT + 2 * MARGIN,
    );
    let scale = PlotScale { last, top: u64::from(top) };
    for (name, color, number) in SERIES {
        let points = step_points(&result.samples, scale, number);
        let _ = write!(
            svg,
            r#"<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{points}"><title>{name}</title></polyline>"#
        );
    }
    write_axes(&mut svg, scale);
    svg.push_str("</svg>\n");
    svg
}

/// The lines of the plot.
type Series = (&'static str, &'static str, fn(&ReplaySample) -> u32);
const SERIES: [Series; 3] = [
    ("replicas", "#1f77b4", |sample| sample.replicas),
    ("busy", "#2ca02c", |sample| sample.busy),
    ("waiting", "#d62728", |sample| sample.waiting),
];

/// What the plot covers.
#[derive(Clone, Copy)]
struct PlotScale {
    last: u64,
    top: u64,
}

impl PlotScale {
    fn x(self, second: u64) -> u64 {
        MARGIN + second * WIDTH / self.last
    }
    fn y(self, number: u32) -> u64 {
        MARGIN + HEIGHT - u64::from(number) * HEIGHT / self.top
    }
}

/// The points of a line that changes in steps.
fn step_points(samples: &[ReplaySample], scale: PlotScale, number: fn(&ReplaySample) -> u32) -> String {
    let mut points = String::new();
    let mut before = 0;
    for sample in samples {
        let (x, y) = (scale.x(sample.second), scale.y(number(sample)));
        let _ = write!(points, "{x},{} {x},{y} ", scale.y(before));
        before = number(sample);
    }
    let _ = write!(points, "{},{}", scale.x(scale.last), scale.y(before));
    points
}

fn write_axes(svg: &mut String, scale: PlotScale) {
    let (left, right, bottom) = (MARGIN, MARGIN + WIDTH, MARGIN + HEIGHT);
    let _ = write!(svg, r##"<path d="M{left} {MARGIN}V{bottom}H{right}" fill="none" stroke="#333"/>"##);
    let _ = write!(
        svg,
        r#"<text x="4" y="{}">{}</text><text x="4" y="{bottom}">0</text>"#,
        MARGIN + 4,
        scale.top
    );
    let _ = write!(
        svg,
        r#"<text x="{right}" y="{}" text-anchor="end">{} h</text>"#,
        bottom + 16,
        scale.last.div_ceil(3600)
    );
    for ((name, color, _), x) in SERIES.iter().zip((0..).map(|place| left + 90 * place)) {
        let _ = write!(svg, r#"<text x="{x}" y="24" fill="{color}">{name}</text>"#);
    }
}
