//! Several charts in one document.

use crate::frame::{HEIGHT, LEFT, WIDTH};
use crate::lines::Lines;
use crate::style::STYLE;
use crate::text::escape;
use std::fmt::Write;

/// Room for the title and the line below it.
const HEAD: f64 = 64.0;

/// Charts below one another, with a title and a line of text above them, as one SVG document.
#[must_use]
pub fn stacked(title: &str, note: &str, charts: &[Lines]) -> String {
    let height = HEAD + charts.len() as f64 * HEIGHT;
    let (title, note, left) = (escape(title), escape(note), LEFT - 40.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" \
         height=\"{height}\"/>\n<text class=\"title\" x=\"{left}\" y=\"28\">{title}</text>\n\
         <text class=\"quiet\" x=\"{left}\" y=\"50\">{note}</text>\n"
    );
    for (number, chart) in charts.iter().enumerate() {
        let top = HEAD + number as f64 * HEIGHT;
        let placed = format!("<svg y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" ");
        // Writing to a String cannot fail.
        let _ = svg.write_str(&chart.to_svg().replacen("<svg ", &placed, 1));
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Across;

    #[test]
    fn each_chart_is_there_once_below_the_one_before() {
        let chart = |title: &str| Lines {
            title: title.to_owned(),
            across: "x".into(),
            scale: Across::Linear,
            upright: "y".into(),
            series: Vec::new(),
        };
        let svg = stacked("A <disk>", "10 GB", &[chart("one"), chart("two")]);
        assert_eq!((svg.matches("<svg ").count(), svg.matches("</svg>").count()), (3, 3));
        assert!(svg.contains("A &lt;disk&gt;") && svg.contains(">10 GB<"));
        assert!(svg.contains("<svg y=\"64\"") && svg.contains(&format!("<svg y=\"{}\"", 64.0 + HEIGHT)));
    }
}
