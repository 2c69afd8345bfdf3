//! The curves as an SVG document: what a distance costs and how fast each place is read, or, of a
//! device without a head, what more requests at a time and larger ones bring.
//!
//! The text stands by itself: no script, no font, no reference to anything outside. Colours follow
//! the reader's preference for light or dark.

use super::findings::{Findings, Verdict};
use foreseek_units::{Bytes, Nanos};
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 930.0;
const FIRST_PANEL: f64 = 100.0;
const PANEL_HEIGHT: f64 = 250.0;
const BETWEEN: f64 = 110.0;
const BELOW: f64 = 60.0;
/// About so many marks on an axis.
const TICKS: f64 = 6.0;

/// One curve: points with a name and a way of being drawn.
struct Series {
    label: &'static str,
    class: &'static str,
    line: bool,
    points: Vec<(f64, f64)>,
}

/// A diagram: an upright linear axis from zero, a level one that may be logarithmic.
struct Panel {
    title: &'static str,
    across: &'static str,
    logarithmic: bool,
    series: Vec<Series>,
}

impl Findings {
    /// The measured curves as the text of an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let panels = if self.verdict == Verdict::DoesNotSeek {
            vec![self.depth_panel(), self.size_panel()]
        } else {
            vec![self.seek_panel(), self.rate_panel()]
        };
        let height = FIRST_PANEL + 2.0 * PANEL_HEIGHT + BETWEEN + BELOW;
        let profile = &self.profile;
        let mut svg = String::new();
        // Writing to a string does not fail.
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"curves\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{name}\">\n<style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" \
             height=\"{height}\"/>\n<text class=\"title\" x=\"{LEFT}\" y=\"34\">{name}</text>\n\
             <text class=\"quiet\" x=\"{LEFT}\" y=\"56\">{}, switch {}, rate {}: competitive depth {}</text>\n",
            profile.capacity(),
            profile.switch_time(),
            profile.sequential_rate(),
            profile.competitive_depth(),
            name = profile.name(),
        );
        for (at, panel) in panels.iter().enumerate() {
            panel.draw(&mut svg, FIRST_PANEL + at as f64 * (PANEL_HEIGHT + BETWEEN));
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn seek_panel(&self) -> Panel {
        let points = |of: fn(&super::SeekPoint) -> Nanos| {
            self.seeks.iter().map(|point| (point.distance.get() as f64, of(point).as_millis_f64())).collect()
        };
        Panel {
            title: "a random page, by distance from the read before: ms",
            across: "distance, bytes",
            logarithmic: true,
            series: vec![
                Series { label: "forward", class: "one", line: false, points: points(|point| point.forward) },
                Series {
                    label: "backward",
                    class: "two",
                    line: false,
                    points: points(|point| point.backward),
                },
            ],
        }
    }

    fn rate_panel(&self) -> Panel {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let measured =
            self.rates.iter().map(|at| (gb(at.offset.get()), at.rate.as_mb_per_second())).collect();
        let mut steps = Vec::with_capacity(2 * self.zones.len());
        for (at, zone) in self.zones.iter().enumerate() {
            let end = self.zones.get(at + 1).map_or(self.capacity.get(), |next| next.start.get());
            let rate = zone.rate.as_mb_per_second();
            steps.extend([(gb(zone.start.get()), rate), (gb(end), rate)]);
        }
        Panel {
            title: "sequential reading, by place: MB/s",
            across: "offset, GB",
            logarithmic: false,
            series: vec![
                Series { label: "zones", class: "two", line: true, points: steps },
                Series { label: "measured", class: "one", line: false, points: measured },
            ],
        }
    }

    fn depth_panel(&self) -> Panel {
        let points = self.depths.iter().map(|point| (point.depth as f64, point.reads_per_second)).collect();
        Panel {
            title: "random pages a second, by requests at a time",
            across: "requests at a time",
            logarithmic: true,
            series: vec![Series { label: "measured", class: "one", line: true, points }],
        }
    }

    fn size_panel(&self) -> Panel {
        let size = |bytes: Bytes| bytes.get() as f64;
        let points =
            self.sizes.iter().map(|point| (size(point.size), point.random.as_millis_f64())).collect();
        Panel {
            title: "a random read, by its size: ms",
            across: "bytes",
            logarithmic: true,
            series: vec![Series { label: "measured", class: "one", line: true, points }],
        }
    }
}

impl Panel {
    fn draw(&self, svg: &mut String, top: f64) {
        let all = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let over = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
        let low = -over(&mut all().map(|(x, _)| -x));
        let (high, most) = (over(&mut all().map(|(x, _)| x)), over(&mut all().map(|(_, y)| y)));
        if !(low.is_finite() && high > low && most > 0.0) {
            return;
        }
        let (low, high) = if self.logarithmic { (low.max(1.0).ln(), high.ln()) } else { (low, high) };
        let x = |value: f64| {
            let value = if self.logarithmic { value.max(1.0).ln() } else { value };
            LEFT + (value - low) / (high - low) * (RIGHT - LEFT)
        };
        let step = step(most);
        let highest = (most / step).ceil() * step;
        let bottom = top + PANEL_HEIGHT;
        let y = |value: f64| bottom - value / highest * PANEL_HEIGHT;
        let _ =
            writeln!(svg, "<text class=\"label\" x=\"{LEFT}\" y=\"{:.0}\">{}</text>", top - 14.0, self.title);
        for tick in (0..).map(|at| f64::from(at) * step).take_while(|tick| *tick <= highest * 1.001) {
            let at = y(tick);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/><text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                plain(tick),
            );
        }
        for (tick, text) in self.ticks(low, high) {
            let at = x(tick);
            let _ = writeln!(
                svg,
                "<path class=\"axis\" d=\"M{at:.1} {bottom}v5\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{text}</text>",
                bottom + 19.0,
            );
        }
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {bottom}H{RIGHT}\"/><text class=\"tick\" x=\"{RIGHT}\" y=\"{:.0}\" \
             text-anchor=\"end\">{}</text>",
            bottom + 38.0,
            self.across,
        );
        for (at, series) in self.series.iter().enumerate() {
            series.draw(svg, x, y);
            let _ = writeln!(
                svg,
                "<text class=\"{}-text tick\" x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                series.class,
                LEFT + 90.0 * at as f64,
                bottom + 38.0,
                series.label
            );
        }
    }

    /// The marks of the level axis, which may be given as logarithms.
    fn ticks(&self, low: f64, high: f64) -> Vec<(f64, String)> {
        if !self.logarithmic {
            let step = step(high - low);
            let first = (low / step).ceil() as i64;
            let marks = (first..).map(|at| at as f64 * step).take_while(|tick| *tick <= high);
            return marks.map(|tick| (tick, plain(tick))).collect();
        }
        // Powers of two, so far apart that there is room for their names.
        let (low, high) = (low / std::f64::consts::LN_2, high / std::f64::consts::LN_2);
        let apart = ((high - low) / (2.0 * TICKS)).ceil().max(1.0) as usize;
        let powers = (low.ceil() as u32..=high.floor() as u32).step_by(apart);
        powers.map(|power| ((1u64 << power) as f64, short(1 << power))).collect()
    }
}

impl Series {
    fn draw(&self, svg: &mut String, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) {
        let mut path = String::new();
        for (at, (across, up)) in self.points.iter().enumerate() {
            let pen = if self.line && at > 0 { 'L' } else { 'M' };
            let dot = if self.line { "" } else { "h0" };
            let _ = write!(path, "{pen}{:.1} {:.1}{dot}", x(*across), y(*up));
        }
        let kind = if self.line { "line" } else { "dots" };
        let _ = writeln!(svg, "<path class=\"{} {kind}\" d=\"{path}\"/>", self.class);
    }
}

/// The distance between marks: one, two or five times a power of ten.
fn step(range: f64) -> f64 {
    let rough = range / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0);
    step * power
}

/// A number without needless digits.
fn plain(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A power of two with its binary prefix.
fn short(bytes: u64) -> String {
    match bytes {
        0..0x400 => bytes.to_string(),
        0x400..0x10_0000 => format!("{}K", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{}M", bytes >> 20),
        0x4000_0000..0x100_0000_0000 => format!("{}G", bytes >> 30),
        _ => format!("{}T", bytes >> 40),
    }
}

/// The colours are told apart by people who see red and green alike, on light and dark ground.
const STYLE: &str = "\
.curves{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
.curves .ground{fill:#fff}\
.curves .title{fill:#1c2430;font-size:20px;font-weight:600}\
.curves .label{fill:#1c2430;font-size:14px;font-weight:600}\
.curves .quiet{fill:#5b6675}\
.curves .tick{fill:#5b6675;font-size:12px;font-variant-numeric:tabular-nums}\
.curves path{fill:none}\
.curves .grid{stroke:#e4e8ee}\
.curves .axis{stroke:#8a94a3}\
.curves .one{stroke:#1668a8}\
.curves .two{stroke:#c2541b}\
.curves .dots{stroke-width:5;stroke-linecap:round}\
.curves .line{stroke-width:1.6}\
.curves .one-text{fill:#1668a8}\
.curves .two-text{fill:#c2541b}\
@media (prefers-color-scheme:dark){\
.curves .ground{fill:#12161c}\
.curves .title,.curves .label{fill:#e6eaf0}\
.curves .quiet,.curves .tick{fill:#98a3b3}\
.curves .grid{stroke:#232a34}\
.curves .axis{stroke:#5c6675}\
.curves .one{stroke:#5fb0ec}\
.curves .two{stroke:#f08a4b}\
.curves .one-text{fill:#5fb0ec}\
.curves .two-text{fill:#f08a4b}\
}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_by_hand() {
        assert_eq!(step(30.0), 5.0);
        assert_eq!(step(13.0), 5.0);
        assert_eq!(step(0.7), 0.2);
        assert_eq!(plain(2.5), "2.5");
        assert_eq!(plain(100.0), "100");
        assert_eq!((short(512), short(4096), short(1 << 30)), ("512".into(), "4K".into(), "1G".into()));
    }
}
