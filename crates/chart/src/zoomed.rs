//! Dots over time, and a part of that time enlarged below.
//!
//! Two panels of dots, one above the other, with one upright axis. Each has a linear level axis of its
//! own, from nothing to its end; the wedge between them shows which part of the upper one the lower one
//! enlarges, so that neither is squeezed and nothing is logarithmic.

use crate::axis::{Axis, plain};
use crate::frame::{self, LEFT, RIGHT};
use crate::style::{ZOOMED, class};
use crate::text::escape;
use std::fmt::Write;

/// Where what stands.
struct Layout {
    /// The width of the document, and where the panels end.
    width: f64,
    right: f64,
    /// Where the first panel begins.
    first: f64,
    /// Ticks of a level axis, at most about so many.
    ticks: usize,
    /// Whether the title and the notes stand beside the panels. A narrow chart leaves the title to the text around it.
    wide: bool,
}

const WIDE: Layout = Layout { width: frame::WIDTH, right: RIGHT, first: 92.0, ticks: 8, wide: true };
/// For a phone, or a column of a page: its letters keep their size there.
const NARROW: Layout = Layout { width: 360.0, right: 340.0, first: 46.0, ticks: 4, wide: false };
const PANEL: f64 = 176.0;
const BETWEEN: f64 = 100.0;
const BELOW: f64 = 56.0;
/// Colours: as a chart of curves gives them to a third and a second series, so that grey stays free.
const COLOURS: [usize; 2] = [2, 1];

/// Dots over a level axis that begins at nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What it shows.
    pub label: String,
    /// What is to be said beside the label, in quiet letters.
    pub note: String,
    /// The end of its level axis.
    pub end: f64,
    /// The dots; those that lie outside are left out.
    pub dots: Vec<(f64, f64)>,
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Zoomed {
    /// The title.
    pub title: String,
    /// A line below it.
    pub note: String,
    /// What the level axes show, with the unit.
    pub across: String,
    /// What the upright axis shows, with its unit.
    pub upright: String,
    /// The values at both ends of the upright axis.
    pub values: (f64, f64),
    /// The upper panel and the lower one.
    pub panels: [Panel; 2],
}

impl Zoomed {
    /// The chart as the text of an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.drawn(&WIDE)
    }

    /// The same for a place half as wide, without title and note.
    #[must_use]
    pub fn to_narrow_svg(&self) -> String {
        self.drawn(&NARROW)
    }

    fn drawn(&self, layout: &Layout) -> String {
        let (mut svg, height) = (String::new(), layout.first + 2.0 * PANEL + BETWEEN + BELOW);
        // Writing to a String cannot fail.
        if layout.wide {
            frame::open(&mut svg, &self.title, height);
            let (x, note) = (LEFT - 40.0, escape(&self.note));
            let _ = writeln!(svg, "<text class=\"quiet\" x=\"{x}\" y=\"46\">{note}</text>");
        } else {
            frame::ground(&mut svg, &self.title, (layout.width, height));
        }
        let _ = writeln!(svg, "<style>{ZOOMED}</style>");
        self.wedge(&mut svg, layout);
        let tops = [layout.first, layout.first + PANEL + BETWEEN];
        for ((panel, top), colour) in self.panels.iter().zip(tops).zip(COLOURS) {
            self.draw(&mut svg, panel, (top, colour), layout);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// From the lower panel's part of the upper one to the lower one's whole width.
    fn wedge(&self, svg: &mut String, &Layout { right, first, .. }: &Layout) {
        let [upper, lower] = &self.panels;
        // A part that would be thinner than a line is shown as one.
        let end = upper.level(right).at(lower.end).clamp(LEFT + 1.0, right);
        let (bottom, next) = (first + PANEL, first + PANEL + BETWEEN);
        let _ = writeln!(
            svg,
            "<path class=\"wedge\" d=\"M{LEFT} {first}H{end:.1}V{bottom}C{end:.1} {:.1} {right} {:.1} {right} {next}H{LEFT}Z\"/>",
            bottom + BETWEEN * 0.7,
            bottom + BETWEEN * 0.3,
        );
    }

    fn draw(&self, svg: &mut String, panel: &Panel, (top, colour): (f64, usize), layout: &Layout) {
        let (level, bottom) = (panel.level(layout.right), top + PANEL);
        let values = Axis::new(self.values, (bottom, top));
        frame::grid_to(svg, values, &self.upright, layout.right);
        level
            .ticks(layout.ticks)
            .into_iter()
            .for_each(|tick| frame::tick_at(svg, (level.at(tick), bottom), &plain(tick)));
        cloud(svg, &panel.dots, level, values, &class(colour));
        frame::level(svg, bottom, &self.across, layout.right);
        let (label, note) = (escape(&panel.label), escape(&panel.note));
        let (y, aside) = match layout.wide {
            true => (top - 9.0, "dx=\"10\"".to_owned()),
            false => (top - 26.0, format!("x=\"{LEFT}\" dy=\"17\"")),
        };
        let _ = writeln!(
            svg,
            "<text class=\"label f{colour}\" x=\"{LEFT}\" y=\"{y:.1}\">{label}<tspan class=\"quiet\" {aside}>{note}</tspan></text>",
        );
    }
}

impl Panel {
    fn level(&self, right: f64) -> Axis {
        Axis::new((0.0, self.end), (LEFT, right))
    }
}

/// Dots as one path, each relative to the one before in tenths of a pixel: short, and exact when added up.
fn cloud(svg: &mut String, dots: &[(f64, f64)], level: Axis, values: Axis, class: &str) {
    let _ = write!(svg, "<path class=\"cloud {class}\" d=\"");
    let mut pen = (0i64, 0i64);
    for (x, y) in dots.iter().filter(|(x, y)| level.holds(*x) && values.holds(*y)) {
        let to = ((level.at(*x) * 10.0).round() as i64, (values.at(*y) * 10.0).round() as i64);
        let by = |to: i64, from: i64| plain((to - from) as f64 / 10.0);
        let _ = write!(svg, "m{} {}h0", by(to.0, pen.0), by(to.1, pen.1));
        pen = to;
    }
    svg.push_str("\"/>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(dots: [Vec<(f64, f64)>; 2]) -> Zoomed {
        let panel = |label: &str, end, dots| Panel { label: label.into(), note: "a & b".into(), end, dots };
        let [upper, lower] = dots;
        Zoomed {
            title: "Blocks <read> & \"more\"".into(),
            note: "made up".into(),
            across: "time, s".into(),
            upright: "MiB".into(),
            values: (0.0, 10.0),
            panels: [panel("long", 100.0, upper), panel("short", 1.0, lower)],
        }
    }

    #[test]
    fn dots_lie_where_their_values_are_and_those_outside_are_left_out() {
        let svg = chart([vec![(0.0, 0.0), (100.0, 10.0), (101.0, 5.0), (5.0, 11.0)], Vec::new()]).to_svg();
        let (bottom, width) = (WIDE.first + PANEL, RIGHT - LEFT);
        assert!(svg.contains(&format!("d=\"m{LEFT} {bottom}h0m{width} -{PANEL}h0\"")), "{svg}");
        assert_eq!(svg.matches("h0").count(), 2);
    }

    #[test]
    fn the_wedge_is_as_wide_as_the_lower_panel_lasts_and_never_thinner_than_a_line() {
        let mut chart = chart([Vec::new(), Vec::new()]);
        chart.panels[1].end = 50.0;
        let middle = f64::midpoint(LEFT, RIGHT);
        assert!(chart.to_svg().contains(&format!("H{middle:.1}V")));
        chart.panels[1].end = 1e-6;
        assert!(chart.to_svg().contains(&format!("H{:.1}V", LEFT + 1.0)));
        chart.panels[1].end = 1e6;
        assert!(chart.to_svg().contains(&format!("H{RIGHT:.1}V")));
    }

    #[test]
    fn it_stands_by_itself_and_is_escaped() {
        let svg = chart([vec![(1.0, 1.0)], vec![(1.0, 1.0)]]).to_svg();
        assert!(svg.contains("Blocks &lt;read&gt; &amp; &quot;more&quot;") && svg.contains("a &amp; b"));
        let outside = svg.replace("http://www.w3.org/2000/svg", "");
        for reference in ["http", "url(", "href", "<script", "@import", "NaN", "inf"] {
            assert!(!outside.contains(reference), "{reference}");
        }
    }

    #[test]
    fn a_narrow_one_has_all_marks_within_its_width() {
        let chart = chart([vec![(0.0, 0.0), (100.0, 10.0)], vec![(1.0, 1.0)]]);
        let svg = chart.to_narrow_svg();
        let wide = NARROW.right - LEFT;
        assert!(svg.contains(&format!("h0m{wide} -{PANEL}h0")) && !svg.contains(&RIGHT.to_string()), "{svg}");
        assert!(svg.contains("dy=\"17\"") && !svg.contains("class=\"title\"") && !svg.contains("made up"));
    }

    #[test]
    fn panels_without_time_or_dots_are_drawn_empty() {
        let mut chart = chart([Vec::new(), Vec::new()]);
        (chart.values, chart.panels[0].end, chart.panels[1].end) = ((0.0, 0.0), 0.0, 0.0);
        let svg = chart.to_svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
