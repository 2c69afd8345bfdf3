//! Names within lines of text: every byte that is not a plain character of a path is written as `%` and two
//! digits.

use std::fmt::Write;

/// A name, of any bytes, as one word.
#[must_use]
pub fn encoded(name: impl AsRef<[u8]>) -> String {
    let name = name.as_ref();
    let mut text = String::with_capacity(name.len());
    for byte in name {
        if byte.is_ascii_alphanumeric() || b"._-/".contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02x}");
        }
    }
    text
}

/// The name that was encoded as this word; `None` for an invalid word.
#[must_use]
pub fn decoded(text: &str) -> Option<String> {
    String::from_utf8(decoded_bytes(text)?).ok()
}

/// The same for a name of any bytes.
#[must_use]
pub fn decoded_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_is_one_word_and_comes_back(name in ".{0,40}", anything in "[%0-9a-zé ]{0,12}") {
            let word = encoded(&name);
            prop_assert!(!word.contains(|letter: char| letter.is_whitespace() || letter == '='));
            prop_assert_eq!(decoded(&word), Some(name));
            let _ = decoded(&anything);
        }
    }
}
