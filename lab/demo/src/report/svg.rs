//! The plot: where on the disk each request began, over time, for both ways of running a query.
//!
//! Two panels, one above the other, with one scale of addresses. Each has a linear axis of time of
//! its own; the wedge between them shows which part of the upper one the lower one enlarges, so that
//! neither is squeezed and nothing is logarithmic. A pass in disk order is a rising line in it.
//!
//! The text stands by itself: no script, no font, no reference to anything outside. Colours follow
//! the reader's preference for light or dark.

use foreseek_chart::{Axis, escape, plain};
use foreseek_units::{Bytes, Lba, Nanos};
use std::fmt::Write;

/// The most marks of a panel: as many as can be told apart, and a file of a few hundred KB. Above
/// that, marks are left out evenly.
pub const MARKS_A_PANEL: usize = 20_000;

/// The share of addresses at either end that may fall off the plot, so that a few requests for the
/// file system's own blocks, a gigabyte away, do not squeeze all the others into a line.
const OUTLIERS: f64 = 0.002;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 936.0;
const FIRST_PANEL: f64 = 102.0;
const PANEL_HEIGHT: f64 = 236.0;
const BETWEEN: f64 = 108.0;
const BELOW: f64 = 62.0;

/// A request that the disk was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When, from the start of the run.
    pub at: Nanos,
    /// Its first sector.
    pub lba: Lba,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// What it is called.
    pub label: &'a str,
    /// How long it took.
    pub duration: Nanos,
    /// Its requests, in any order.
    pub marks: &'a [Mark],
}

/// Both runs of one query.
#[derive(Clone, Copy, Debug)]
pub struct Plot<'a> {
    /// The title.
    pub title: &'a str,
    /// What was run, on what.
    pub subtitle: &'a str,
    /// Without prefetching: the upper panel.
    pub stock: Panel<'a>,
    /// With it: the lower panel.
    pub foreseek: Panel<'a>,
}

impl Plot<'_> {
    /// The plot as the text of an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let height = FIRST_PANEL + 2.0 * PANEL_HEIGHT + BETWEEN + BELOW;
        let (low, high) = self.addresses();
        let mut svg = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"blocks\" viewBox=\"0 0 {WIDTH} {height}\" \
             role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"34\">{}</text>\n\
             <text class=\"quiet\" x=\"{LEFT}\" y=\"55\">{}</text>\n",
            escape(self.title),
            escape(self.title),
            escape(self.subtitle),
        );
        let upper = Frame::new(FIRST_PANEL, (low, high), self.stock.duration);
        let lower = Frame::new(FIRST_PANEL + PANEL_HEIGHT + BETWEEN, (low, high), self.foreseek.duration);
        self.wedge(&mut svg, upper, lower);
        upper.draw(&mut svg, "stock", &self.stock);
        lower.draw(&mut svg, "foreseek", &self.foreseek);
        svg.push_str("</svg>\n");
        svg
    }

    /// The range of addresses in MiB that both panels show.
    fn addresses(&self) -> (f64, f64) {
        let mut all: Vec<Lba> =
            self.stock.marks.iter().chain(self.foreseek.marks).map(|mark| mark.lba).collect();
        all.sort_unstable();
        let off = (all.len() as f64 * OUTLIERS) as usize;
        let (Some(low), Some(high)) = (all.get(off), all.len().checked_sub(off + 1).map(|i| all[i])) else {
            return (0.0, 1.0);
        };
        let (low, high) = (mebibytes(*low), mebibytes(high));
        let margin = (high - low).max(1.0) * 0.03;
        ((low - margin).max(0.0), high + margin)
    }

    /// The wedge from the lower panel's time on the upper axis to the lower panel's whole width.
    fn wedge(&self, svg: &mut String, upper: Frame, lower: Frame) {
        let end = upper.time.at(self.foreseek.duration.as_secs_f64()).min(RIGHT);
        // An interval that would be thinner than a line is shown as one.
        let end = end.max(LEFT + 1.0);
        let (top, bottom) = (upper.top, upper.top + PANEL_HEIGHT);
        let _ = write!(
            svg,
            "<rect class=\"band\" x=\"{LEFT}\" y=\"{top}\" width=\"{:.1}\" height=\"{PANEL_HEIGHT}\"/>\n\
             <path class=\"band\" d=\"M{LEFT} {bottom}H{end:.1}C{end:.1} {:.1} {RIGHT} {:.1} {RIGHT} {lower}H{LEFT}Z\"/>\n",
            end - LEFT,
            bottom + BETWEEN * 0.7,
            bottom + BETWEEN * 0.3,
            lower = lower.top,
        );
    }
}

/// A panel's place and scales.
#[derive(Clone, Copy)]
struct Frame {
    top: f64,
    time: Axis,
    address: Axis,
}

impl Frame {
    fn new(top: f64, addresses: (f64, f64), duration: Nanos) -> Self {
        Self {
            top,
            time: Axis::new((0.0, duration.as_secs_f64()), (LEFT, RIGHT)),
            address: Axis::new(addresses, (top + PANEL_HEIGHT, top)),
        }
    }

    fn draw(self, svg: &mut String, class: &str, panel: &Panel<'_>) {
        let bottom = self.top + PANEL_HEIGHT;
        for tick in self.address.ticks(6) {
            let y = self.address.at(tick);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                plain(tick),
            );
        }
        for tick in self.time.ticks(10) {
            let x = self.time.at(tick);
            let _ = writeln!(
                svg,
                "<path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{}</text>",
                bottom + 19.0,
                plain(tick),
            );
        }
        let shown = self.marks(svg, class, panel.marks);
        let middle = self.top + PANEL_HEIGHT / 2.0;
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {bottom}H{RIGHT}\"/>\n\
             <text class=\"tick\" transform=\"translate(20 {middle}) rotate(-90)\" text-anchor=\"middle\">address on disk, MiB</text>\n\
             <text class=\"tick\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">time, s</text>\n\
             <text class=\"label\" x=\"{LEFT}\" y=\"{:.1}\"><tspan class=\"{class}-text\">{}</tspan> \
             <tspan class=\"quiet\" dx=\"8\">{}</tspan></text>",
            bottom + 36.0,
            self.top - 9.0,
            escape(panel.label),
            escape(&shown),
        );
    }

    /// Draws the marks that lie within as one path of round dots, and says what it shows.
    fn marks(self, svg: &mut String, class: &str, marks: &[Mark]) -> String {
        let within =
            |mark: &&Mark| self.address.holds(mebibytes(mark.lba)) && self.time.holds(mark.at.as_secs_f64());
        let inside = marks.iter().filter(within).count();
        let _ = write!(svg, "<path class=\"{class}\" d=\"");
        // Bresenham's way of leaving out evenly: a mark is kept when the count steps on.
        let keep = inside.min(MARKS_A_PANEL);
        let mut pen = (0i64, 0i64);
        for (number, mark) in marks.iter().filter(within).enumerate() {
            if (number + 1) * keep / inside == number * keep / inside {
                continue;
            }
            // In tenths of a pixel, relative to the mark before: short, and exact when added up.
            let x = (self.time.at(mark.at.as_secs_f64()) * 10.0).round() as i64;
            let y = (self.address.at(mebibytes(mark.lba)) * 10.0).round() as i64;
            let _ =
                write!(svg, "m{} {}h0", plain((x - pen.0) as f64 / 10.0), plain((y - pen.1) as f64 / 10.0));
            pen = (x, y);
        }
        svg.push_str("\"/>\n");
        let mut shown = format!("{} requests", grouped(marks.len()));
        if keep < inside {
            let _ = write!(shown, ", {} of them drawn", grouped(keep));
        }
        if inside < marks.len() {
            let _ = write!(shown, ", {} elsewhere on the disk", grouped(marks.len() - inside));
        }
        shown
    }
}

fn mebibytes(lba: Lba) -> f64 {
    lba.offset().get() as f64 / Bytes::mib(1).get() as f64
}

/// A count with its digits in groups of three.
pub(super) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The colours are told apart by people who see red and green alike, on light and dark ground. No
/// variables: viewers other than browsers know none.
const STYLE: &str = "\
.blocks{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
.blocks .ground{fill:#fff}\
.blocks .title{fill:#1c2430;font-size:20px;font-weight:600}\
.blocks .label{font-size:14px;font-weight:600}\
.blocks .quiet{fill:#5b6675;font-weight:400}\
.blocks .tick{fill:#5b6675;font-size:12px;font-variant-numeric:tabular-nums}\
.blocks path{fill:none}\
.blocks .grid{stroke:#e4e8ee}\
.blocks .axis{stroke:#8a94a3}\
.blocks .stock{stroke:#c2541b;stroke-width:1.3;stroke-linecap:round;opacity:.55}\
.blocks .foreseek{stroke:#1668a8;stroke-width:1.6;stroke-linecap:round;opacity:.8}\
.blocks .stock-text{fill:#c2541b}\
.blocks .foreseek-text{fill:#1668a8}\
.blocks .band{fill:#1668a8;opacity:.11}\
@media (prefers-color-scheme:dark){\
.blocks .ground{fill:#12161c}\
.blocks .title{fill:#e6eaf0}\
.blocks .quiet,.blocks .tick{fill:#98a3b3}\
.blocks .grid{stroke:#232a34}\
.blocks .axis{stroke:#5c6675}\
.blocks .stock{stroke:#f08a4b}\
.blocks .foreseek{stroke:#5fb0ec}\
.blocks .stock-text{fill:#f08a4b}\
.blocks .foreseek-text{fill:#5fb0ec}\
.blocks .band{fill:#5fb0ec;opacity:.14}\
}";

#[cfg(test)]
mod tests {
    use super::*;

    /// `passes` sweeps over addresses from 1 GiB on, and a stray request at the disk's start.
    fn sweeps(count: u64, passes: u64) -> Vec<Mark> {
        let mut marks: Vec<Mark> = (0..count)
            .map(|i| Mark {
                at: Nanos::from_micros(i * 100),
                lba: Lba((1 << 21) + i * passes % count * 200_000 / count),
            })
            .collect();
        marks.push(Mark { at: Nanos::ZERO, lba: Lba(2) });
        marks
    }

    fn plot(marks: usize) -> String {
        let stock = sweeps(marks as u64, 37);
        let foreseek = sweeps(1000, 8);
        Plot {
            title: "Blocks <read> & \"more\"",
            subtitle: "made up",
            stock: Panel { label: "Stock", duration: Nanos::from_secs(100), marks: &stock },
            foreseek: Panel { label: "With Foreseek", duration: Nanos::from_millis(100), marks: &foreseek },
        }
        .to_svg()
    }

    #[test]
    fn every_request_is_drawn_or_counted() {
        let svg = plot(5000);
        assert!(svg.contains("5,001 requests, 1 elsewhere on the disk"));
        assert!(svg.contains("1,001 requests, 1 elsewhere on the disk"));
        assert_eq!(svg.matches("h0").count(), 6000);
    }

    #[test]
    fn there_are_never_more_marks_than_the_limit() {
        let svg = plot(50_000);
        assert!(svg.contains("50,001 requests, 20,000 of them drawn, 1 elsewhere"));
        assert_eq!(svg.matches("h0").count(), 21_000);
    }

    #[test]
    fn it_stands_by_itself_and_is_escaped() {
        let svg = plot(10);
        assert!(svg.contains("Blocks &lt;read&gt; &amp; &quot;more&quot;"));
        let outside = svg.replace("http://www.w3.org/2000/svg", "");
        for reference in ["http", "url(", "href", "<script", "@import"] {
            assert!(!outside.contains(reference), "{reference}");
        }
    }

    #[test]
    fn a_run_without_requests_is_drawn_empty() {
        let panel = Panel { label: "none", duration: Nanos::ZERO, marks: &[] };
        let svg = Plot { title: "", subtitle: "", stock: panel, foreseek: panel }.to_svg();
        assert!(svg.contains("0 requests") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
