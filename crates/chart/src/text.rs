//! Text within markup.

/// Text that is safe within an element or a quoted attribute of SVG and HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(character),
        }
    }
    safe
}

/// About how wide a text is in pixels at the charts' size of letters: for placing a legend, where a
/// few pixels do not matter.
pub(crate) fn width(text: &str) -> f64 {
    let one = |letter| match letter {
        'f' | 'i' | 'j' | 'l' | 'r' | 't' | '.' | ',' | ' ' | '-' => 4.8,
        'm' | 'w' | 'M' | 'W' => 11.0,
        _ => 8.0,
    };
    text.chars().map(one).sum()
}
