//! What all charts have: ground, title, legend, the upright axis with its grid.

use crate::axis::{Axis, plain};
use crate::style::{STYLE, class};
use crate::text::{escape, width};
use std::fmt::Write;

pub(crate) const WIDTH: f64 = 640.0;
pub(crate) const HEIGHT: f64 = 360.0;
pub(crate) const LEFT: f64 = 64.0;
pub(crate) const RIGHT: f64 = 620.0;
const TOP: f64 = 78.0;
/// How high the first row of the legend stands.
const LEGEND: f64 = 45.0;
pub(crate) const BOTTOM: f64 = 304.0;
/// Room above the largest value, so that it does not touch the frame.
const HEADROOM: f64 = 1.06;

/// Begins a chart whose values go from nothing to `largest`; answers its upright axis.
pub(crate) fn begin(svg: &mut String, title: &str, upright: &str, names: &[&str], largest: f64) -> Axis {
    let largest = if largest.is_finite() && largest > 0.0 { largest * HEADROOM } else { 1.0 };
    let values = Axis::new((0.0, largest), (BOTTOM, TOP));
    open(svg, title, HEIGHT);
    legend(svg, names);
    grid(svg, values, upright);
    values
}

/// Opens the document: ground and title.
pub(crate) fn open(svg: &mut String, title: &str, height: f64) {
    ground(svg, title, (WIDTH, height));
    // Writing to a String cannot fail.
    let _ = writeln!(svg, "<text class=\"title\" x=\"{}\" y=\"26\">{}</text>", LEFT - 40.0, escape(title));
}

/// Opens a document of this width and height. The title is only read out.
pub(crate) fn ground(svg: &mut String, title: &str, (width, height): (f64, f64)) {
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{}\">\n<style>{STYLE}</style>\n<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>",
        escape(title),
    );
}

/// The upright axis with its grid and its name.
pub(crate) fn grid(svg: &mut String, values: Axis, upright: &str) {
    grid_to(svg, values, upright, RIGHT);
}

/// The same in a chart that ends elsewhere.
pub(crate) fn grid_to(svg: &mut String, values: Axis, upright: &str, right: f64) {
    for tick in values.ticks(6) {
        let y = values.at(tick);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            plain(tick),
        );
    }
    let middle = (values.pixels.0 + values.pixels.1) / 2.0;
    let _ = writeln!(
        svg,
        "<text class=\"tick\" transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escape(upright)
    );
}

/// The names beside pieces of their lines, in as many rows as they take; two fit above the curves. What has
/// no name is left out.
fn legend(svg: &mut String, names: &[&str]) {
    let (mut x, mut y) = (LEFT - 40.0, LEGEND);
    for (series, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        if x > LEFT - 40.0 && x + 22.0 + width(name) > WIDTH {
            (x, y) = (LEFT - 40.0, y + 18.0);
        }
        let (line, at, foot) = (class(series), x + 22.0, y + 5.0);
        let _ = writeln!(
            svg,
            "<path class=\"line {line}\" d=\"M{x:.0} {y:.0}h16\"/><text x=\"{at:.0}\" y=\"{foot:.0}\">{}</text>",
            escape(name)
        );
        x = at + width(name) + 18.0;
    }
}

/// Ends it, with the level axis' name.
pub(crate) fn end(svg: &mut String, across: &str) {
    level(svg, BOTTOM, across, RIGHT);
    svg.push_str("</svg>\n");
}

/// The level axis up to its right end, and its name.
pub(crate) fn level(svg: &mut String, bottom: f64, across: &str, right: f64) {
    let _ = writeln!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>\n<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" \
         text-anchor=\"middle\">{}</text>",
        (LEFT + right) / 2.0,
        bottom + 42.0,
        escape(across)
    );
}

/// A tick of the level axis.
pub(crate) fn tick(svg: &mut String, x: f64, label: &str) {
    tick_at(svg, (x, BOTTOM), label);
}

/// A tick of a level axis elsewhere.
pub(crate) fn tick_at(svg: &mut String, (x, bottom): (f64, f64), label: &str) {
    let _ = writeln!(
        svg,
        "<path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" \
         text-anchor=\"middle\">{}</text>",
        bottom + 20.0,
        escape(label)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_legend_goes_on_in_another_row() {
        let rows = |names: &[&str]| {
            let mut svg = String::new();
            legend(&mut svg, names);
            let foot = |line: &str| Some(line.split_once("y=\"")?.1.split_once('"')?.0.to_owned());
            svg.lines().filter_map(foot).collect::<Vec<_>>()
        };
        assert_eq!(rows(&["one", "two"]), ["50", "50"]);
        assert_eq!(rows(&["one", "", "two"]), ["50", "50"], "what has no name has no place");
        let long = "x".repeat(50);
        assert_eq!(rows(&["one", &long, "two", &long]), ["50", "50", "50", "68"]);
        assert_eq!(
            rows(&["x".repeat(200).as_str()]),
            ["50"],
            "what is too long for any row stays where it is"
        );
    }
}
