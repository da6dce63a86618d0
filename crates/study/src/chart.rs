//! Charts as SVG: the same figures give the same bytes.
//!
//! Owns geometry and colours. Coordinates are rounded to a tenth of a pixel, so that no machine's arithmetic shows.
//! Colours are those of Okabe and Ito (2008), which most eyes can tell apart.

use crate::statistics::{Spread, shown};
use std::fmt::Write as _;

const COLOURS: [&str; 8] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#7a6a00", "#444444"];
const WIDTH: f64 = 900.0;
const LABEL_WIDTH: f64 = 260.0;
const PLOT_HEIGHT: f64 = 260.0;
const BAR_HEIGHT: f64 = 14.0;
/// More points than that on a line cannot be seen.
const POINTS_MAX: usize = 400;

/// Text that may stand in SVG.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn open(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"{title}\" font-family=\"sans-serif\" font-size=\"12\">",
        title = escaped(title)
    )
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = escaped(words);
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn legend(svg: &mut String, names: &[String], top: f64) {
    for (place, name) in names.iter().enumerate() {
        let (column, row) = ((place % 3) as f64, (place / 3) as f64);
        let (x, y) = (10.0 + column * 295.0, top + row * 18.0);
        let colour = COLOURS[place % COLOURS.len()];
        let _ = write!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        text(svg, (x + 18.0, y + 10.5), "start", name);
    }
}

fn legend_height(names: usize) -> f64 {
    names.div_ceil(3) as f64 * 18.0 + 8.0
}

/// A round number not below `most`, and the step between the lines up to it.
fn scale(most: f64) -> (f64, f64) {
    if !(most.is_finite() && most > 0.0) {
        return (1.0, 0.25);
    }
    let magnitude = 10f64.powf(most.log10().floor());
    let step = [0.2, 0.25, 0.5, 1.0, 2.0].into_iter().map(|f| f * magnitude).find(|step| most / step <= 5.0);
    let step = step.unwrap_or(2.0 * magnitude);
    ((most / step).ceil() * step, step)
}

fn tick(value: f64, step: f64) -> String {
    let decimals = if step >= 1.0 { usize::from(step.fract() != 0.0) } else { (2.0 - step.log10()).floor() as usize };
    shown(value, decimals)
}

/// Horizontal bars: a group for each configuration, a bar in it for each metric.
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    unit: String,
    metrics: Vec<String>,
    groups: Vec<Group>,
}

/// The bars of one configuration.
#[derive(Clone, Debug)]
struct Group {
    name: String,
    values: Vec<Option<Spread>>,
    published: Vec<Option<f64>>,
}

impl Bars {
    /// A chart without bars.
    pub fn new(title: &str, unit: &str, metrics: Vec<String>) -> Bars {
        Bars { title: title.to_owned(), unit: unit.to_owned(), metrics, groups: Vec::new() }
    }

    /// Adds a group: what was measured, and what was published, of each metric.
    pub fn add(&mut self, name: &str, values: Vec<Option<Spread>>, published: Vec<Option<f64>>) {
        if values.iter().any(Option::is_some) {
            self.groups.push(Group { name: name.to_owned(), values, published });
        }
    }

    /// The SVG; none without a bar.
    pub fn draw(&self) -> Option<String> {
        let measured = self.groups.iter().flat_map(|group| group.values.iter().flatten());
        let published = self.groups.iter().flat_map(|group| group.published.iter().flatten().copied());
        let most = measured.map(|spread| spread.mean + spread.deviation).chain(published).fold(0.0, f64::max);
        let (top, step) = scale(most);
        let group_height = self.metrics.len() as f64 * BAR_HEIGHT + 8.0;
        let legend_height = legend_height(self.metrics.len());
        let plot_top = 30.0 + legend_height;
        let plot_bottom = plot_top + self.groups.len() as f64 * group_height;
        let x = |value: f64| LABEL_WIDTH + value / top * (WIDTH - LABEL_WIDTH - 90.0);
        let mut svg = open(&self.title, plot_bottom + 24.0);
        text(&mut svg, (10.0, 16.0), "start", &format!("{} ({})", self.title, self.unit));
        legend(&mut svg, &self.metrics, 26.0);
        for line in (0..=(top / step).round() as usize).map(|line| line as f64 * step) {
            let at = x(line);
            let _ = write!(
                svg,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{plot_top:.1}\" y2=\"{plot_bottom:.1}\" stroke=\"#ddd\"/>"
            );
            text(&mut svg, (at, plot_bottom + 14.0), "middle", &tick(line, step));
        }
        for (place, group) in self.groups.iter().enumerate() {
            draw_group(&mut svg, group, plot_top + place as f64 * group_height + 4.0, &x);
        }
        svg.push_str("</svg>");
        (!self.groups.is_empty()).then_some(svg)
    }
}

fn draw_group(svg: &mut String, group: &Group, top: f64, x: &impl Fn(f64) -> f64) {
    let Group { name, values, published } = group;
    let middle = top + values.len() as f64 * BAR_HEIGHT / 2.0 + 4.0;
    text(svg, (LABEL_WIDTH - 8.0, middle), "end", name);
    for (place, spread) in values.iter().enumerate() {
        let Some(spread) = spread else { continue };
        let (y, colour) = (top + place as f64 * BAR_HEIGHT, COLOURS[place % COLOURS.len()]);
        let (height, middle) = (BAR_HEIGHT - 2.0, y + BAR_HEIGHT / 2.0 - 1.0);
        let (left, right) = (x(0.0), x(spread.mean.max(0.0)));
        let width = right - left;
        let _ = write!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
        if spread.deviation > 0.0 {
            let (from, to) = (x((spread.mean - spread.deviation).max(0.0)), x(spread.mean + spread.deviation));
            let _ = write!(
                svg,
                "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#000\"/>"
            );
        }
        if let Some(published) = published.get(place).copied().flatten() {
            let (at, end) = (x(published), y + height);
            let _ = write!(
                svg,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{y:.1}\" y2=\"{end:.1}\" stroke=\"#c00\" stroke-width=\"3\">\
                 <title>published</title></line>"
            );
        }
        let decimals = if spread.mean.abs() >= 100.0 { 0 } else { 2 };
        text(
            svg,
            (right.max(x(spread.mean + spread.deviation)) + 6.0, y + 10.0),
            "start",
            &shown(spread.mean, decimals),
        );
    }
}

/// One line of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Lines over time.
#[derive(Clone, Debug)]
pub struct Lines {
    title: String,
    unit: String,
    lines: Vec<Line>,
}

impl Lines {
    /// A chart without lines.
    pub fn new(title: &str, unit: &str) -> Lines {
        Lines { title: title.to_owned(), unit: unit.to_owned(), lines: Vec::new() }
    }

    /// Adds a line of pairs of seconds and value; one without points is left out.
    pub fn add(&mut self, name: &str, points: Vec<(f64, f64)>) {
        if !points.is_empty() {
            self.lines.push(Line { name: name.to_owned(), points: thinned(points) });
        }
    }

    /// The SVG; none without a line.
    pub fn draw(&self) -> Option<String> {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let (top, step) = scale(all().map(|point| point.1).fold(0.0, f64::max));
        let (end, time_step) = scale(all().map(|point| point.0).fold(0.0, f64::max));
        let names: Vec<String> = self.lines.iter().map(|line| line.name.clone()).collect();
        let plot_top = 30.0 + legend_height(names.len());
        let plot_bottom = plot_top + PLOT_HEIGHT;
        let x = |seconds: f64| 80.0 + seconds / end * (WIDTH - 100.0);
        let y = |value: f64| plot_bottom - value / top * PLOT_HEIGHT;
        let mut svg = open(&self.title, plot_bottom + 34.0);
        text(&mut svg, (10.0, 16.0), "start", &format!("{} ({})", self.title, self.unit));
        legend(&mut svg, &names, 26.0);
        for value in (0..=(top / step).round() as usize).map(|line| line as f64 * step) {
            let (at, right) = (y(value), WIDTH - 20.0);
            let _ = write!(svg, "<line x1=\"80\" x2=\"{right:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>");
            text(&mut svg, (74.0, at + 4.0), "end", &tick(value, step));
        }
        for seconds in (0..=(end / time_step).round() as usize).map(|line| line as f64 * time_step) {
            text(&mut svg, (x(seconds), plot_bottom + 16.0), "middle", &tick(seconds, time_step));
        }
        text(&mut svg, (WIDTH / 2.0, plot_bottom + 30.0), "middle", "seconds");
        for (place, line) in self.lines.iter().enumerate() {
            let points: Vec<String> =
                line.points.iter().map(|(seconds, value)| format!("{:.1},{:.1}", x(*seconds), y(*value))).collect();
            let (points, colour) = (points.join(" "), COLOURS[place % COLOURS.len()]);
            let _ =
                write!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>");
        }
        svg.push_str("</svg>");
        (!self.lines.is_empty()).then_some(svg)
    }
}

/// Neighbours brought together to their mean until a line has no more points than can be seen.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let together = points.len().div_ceil(POINTS_MAX).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let sum = chunk.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / chunk.len() as f64, sum.1 / chunk.len() as f64)
    };
    points.chunks(together).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_on_round_numbers() {
        for (most, expected) in [(0.0, 1.0), (9.0, 10.0), (21_500.0, 25_000.0), (3.54, 4.0), (100.0, 100.0)] {
            let (top, step) = scale(most);
            assert_eq!(top, expected, "{most}");
            assert!((2.0..=5.5).contains(&(top / step)), "{most}: {top} in steps of {step}");
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_text_is_escaped() {
        let mut bars = Bars::new("a < b", "IOPS", vec!["rate".to_owned()]);
        assert_eq!(bars.draw(), None);
        bars.add("x & y", vec![Spread::of(&[50.0])], vec![Some(100.0)]);
        bars.add("none", vec![None], vec![None]);
        let svg = bars.draw().expect("a bar");
        assert!(svg.contains("x &amp; y") && svg.contains("a &lt; b") && !svg.contains("none</text>"), "{svg}");
        // Half of the scale, which is 550 wide.
        assert!(svg.contains("x=\"260.0\" y=\"60.0\" width=\"275.0\""), "{svg}");
        assert!(svg.contains("x1=\"810.0\" x2=\"810.0\" y1=\"60.0\""), "{svg}");
        assert_eq!(bars.draw(), bars.clone().draw());
    }

    #[test]
    fn long_lines_are_thinned_to_means() {
        let mut lines = Lines::new("t", "ms");
        assert_eq!(lines.draw(), None);
        lines.add("empty", Vec::new());
        lines.add("long", (0..1000).map(|n| (f64::from(n), f64::from(n % 3))).collect());
        assert_eq!(lines.lines.len(), 1);
        let points = &lines.lines[0].points;
        assert_eq!((points.len(), points[0]), (334, (1.0, 1.0)));
        assert!(lines.draw().expect("a line").contains("<polyline"));
    }
}
