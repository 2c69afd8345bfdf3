//! Fields of a line: numbers, or why they are not.

use foreseek_units::Nanos;

/// A field of `fields`, or what is missing.
pub(super) fn field<'a>(fields: &mut impl Iterator<Item = &'a str>, name: &str) -> Result<&'a str, String> {
    fields.next().map(str::trim).ok_or_else(|| format!("ends before its {name}"))
}

/// A whole number.
pub(super) fn number<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("its {name} '{}' is not a whole number in range", shown(text)))
}

/// A time in units of `unit`, with a fraction if there is one, to the nanosecond. Digits beyond are
/// cut off. No floating point: times of years keep their nanoseconds.
pub(super) fn time(text: &str, unit: Nanos, name: &str) -> Result<Nanos, String> {
    let wrong = || format!("its {name} '{}' is not a time", shown(text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !is_number(whole) || !is_number(fraction) {
        return Err(wrong());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let mut nanos = whole.checked_mul(unit.get()).ok_or_else(wrong)?;
    let mut scale = unit.get();
    for digit in fraction.bytes() {
        // A unit of 10^n nanoseconds has n digits behind its point.
        scale /= 10;
        nanos = nanos.checked_add(u64::from(digit - b'0') * scale).ok_or_else(wrong)?;
    }
    Ok(Nanos(nanos))
}

/// Text from a file, shortened and without control characters, for a terminal.
pub(super) fn shown(text: &str) -> String {
    /// Long enough to recognise a field.
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().count() > SHOWN {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        for (text, unit, nanos) in [
            ("0.551706", Nanos::from_secs(1), 551_706_000),
            ("12", Nanos::from_millis(1), 12_000_000),
            ("1686.00000", Nanos::from_micros(1), 1_686_000),
            (".5", Nanos::from_millis(1), 500_000),
            ("3.", Nanos::from_secs(1), 3_000_000_000),
            ("0.0000000019", Nanos::from_secs(1), 1),
            ("128166372003061629", Nanos(100), 12_816_637_200_306_162_900),
        ] {
            assert_eq!(time(text, unit, "time"), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_quoted_without_harm() {
        for text in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999", "18446744073709551615"] {
            let error = time(text, Nanos::from_secs(1), "time").expect_err(text);
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
        let error = number::<u32>("\u{1b}[2J", "sector").expect_err("no number");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}
