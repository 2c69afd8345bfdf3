//! The plot of two distributions of response times: which share of the requests is faster.
//!
//! The text stands by itself: no script, no font, no reference to anything outside. Colours follow
//! the reader's preference for light or dark.

use foreseek_device::validation::Demerit;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 830.0;
const TOP: f64 = 86.0;
const BOTTOM: f64 = 452.0;
/// The slowest requests that lie off the plot, so that a few retries do not squeeze all others.
const SHOWN: f64 = 0.998;
/// Points of a curve: one in two pixels.
const POINTS: u32 = 400;
/// Lines of the grid in each direction, at most.
const GRID: f64 = 8.0;

const STYLE: &str = "svg{font:13px system-ui,sans-serif}.ground{fill:#fff}text{fill:#222}.quiet{fill:#666}\
    .grid{stroke:#ddd}.measured{stroke:#222;fill:none;stroke-width:2.5}.modelled{stroke:#d1495b;fill:none;stroke-width:1.5}\
    .title{font-size:17px;font-weight:600}\
    @media(prefers-color-scheme:dark){.ground{fill:#16181c}text{fill:#e6e6e6}.quiet{fill:#9a9a9a}.grid{stroke:#333}\
    .measured{stroke:#e6e6e6}.modelled{stroke:#ff7b8b}}";

/// Both distributions as the text of an SVG document.
pub(super) fn distributions(drive: &str, demerit: &Demerit) -> String {
    let (one, other) = demerit.quantile_ms(SHOWN);
    let longest = one.max(other).max(1e-3);
    let x = |ms: f64| LEFT + (RIGHT - LEFT) * (ms / longest).min(1.0);
    let y = |share: f64| BOTTOM - (BOTTOM - TOP) * share;
    let mut svg = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Response times of {drive}\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"32\">{drive}: response times, measured and modelled</text>\n\
         <text class=\"quiet\" x=\"{LEFT}\" y=\"54\">demerit {:.3} ms, mean error {:+.3} ms</text>\n",
        demerit.rms_ms(),
        demerit.mean_error_ms(),
    );
    grid(&mut svg, longest, x, y);
    let curve = |which: fn((f64, f64)) -> f64| {
        let mut path = String::new();
        for point in 0..=POINTS {
            let share = f64::from(point) / f64::from(POINTS);
            let ms = which(demerit.quantile_ms(share));
            let _ = write!(path, "{}{:.1} {:.1}", if point == 0 { 'M' } else { 'L' }, x(ms), y(share));
        }
        path
    };
    for (class, which) in
        [("measured", (|pair| pair.0) as fn((f64, f64)) -> f64), ("modelled", |pair| pair.1)]
    {
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{}\"/>", curve(which));
    }
    for (line, class) in ["measured", "modelled"].into_iter().enumerate() {
        let at = BOTTOM - 40.0 + 20.0 * line as f64;
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" d=\"M{} {at}h28\"/><text x=\"{}\" y=\"{}\">{class}</text>",
            RIGHT - 130.0,
            RIGHT - 96.0,
            at + 4.0,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn grid(svg: &mut String, longest: f64, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) {
    let step = round_step(longest / GRID);
    let mut ms = 0.0;
    while ms <= longest {
        let at = x(ms);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>\
             <text class=\"quiet\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 20.0,
            (ms * 1e6).round() / 1e6,
        );
        ms += step;
    }
    for percent in (0..=100).step_by(20) {
        let at = y(f64::from(percent) / 100.0);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\
             <text class=\"quiet\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            LEFT - 8.0,
            at + 4.0,
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"quiet\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">response time in ms; the share of requests that are faster</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 46.0,
    );
}

/// The next of 1, 2, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Nanos;

    #[test]
    fn a_plot_holds_both_curves_and_nothing_from_outside() {
        let times = |factor: u64| (1..100).map(|i| Nanos::from_micros(i * factor)).collect();
        let svg = distributions("drive", &Demerit::new(times(100), times(110)));
        assert_eq!(svg.matches("<path class=\"measured\"").count(), 2);
        assert_eq!(svg.matches("<path class=\"modelled\"").count(), 2);
        assert!(
            !svg.contains("NaN")
                && !svg.contains("inf")
                && !svg.replace("www.w3.org", "").contains("http://www.")
        );
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([0.9, 1.1, 2.5, 0.03].map(round_step), [1.0, 2.0, 5.0, 0.05]);
    }
}
