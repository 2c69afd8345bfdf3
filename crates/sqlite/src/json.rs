//! Text as JSON.

use std::fmt::Write;

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            letter if letter < ' ' => {
                // Writing to a string does not fail.
                let _ = write!(json, "\\u{:04x}", u32::from(letter));
            }
            letter => json.push(letter),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read_back() {
        for text in ["", "plain", "a \"b\" \\ c", "tab\t, line\n, nul\0, \u{7f}, \u{2028} ä"] {
            assert_eq!(serde_json::from_str::<String>(&quoted(text)).expect("JSON"), text);
        }
    }
}
