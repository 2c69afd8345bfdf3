//! Varints and the record format (SQLite file format, section 2.1).

use crate::header::Encoding;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Reads a variable-length integer. Returns its value and its length, or `None` if the bytes end within it.
#[must_use]
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    bytes.get(8).map(|&byte| (value << 8 | u64::from(byte), 9))
}

/// A value of a record. Text is as stored; its encoding is the database's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text, as stored.
    Text(&'a [u8]),
    /// A blob.
    Blob(&'a [u8]),
}

/// The columns of a record, in order. It ends early if the bytes are cut off or invalid, therefore compare the
/// number of values with the number needed.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    types: &'a [u8],
    body: &'a [u8],
}

/// Splits a record's payload into header and body. `None` if the header does not fit.
#[must_use]
pub fn columns(payload: &[u8]) -> Option<Columns<'_>> {
    let (header_len, at) = varint(payload)?;
    let header_len = usize::try_from(header_len).ok()?;
    Some(Columns { types: payload.get(at..header_len)?, body: &payload[header_len..] })
}

impl<'a> Iterator for Columns<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let (serial, used) = varint(self.types)?;
        let length = serial_len(serial)?;
        let bytes = self.body.get(..length)?;
        self.types = &self.types[used..];
        self.body = &self.body[length..];
        Some(value(serial, bytes))
    }
}

/// The last column of a whole record: in an index on a rowid table, the rowid. Decodes only the types; `None`
/// if the last column is no integer.
#[must_use]
pub fn last_integer(payload: &[u8]) -> Option<i64> {
    let Columns { mut types, body } = columns(payload)?;
    let (mut at, mut last) = (0usize, 0u64);
    while !types.is_empty() {
        let (serial, used) = varint(types)?;
        types = &types[used..];
        last = serial;
        at = at.checked_add(serial_len(serial)?)?;
    }
    let from = at.checked_sub(serial_len(last)?)?;
    match value(last, body.get(from..at)?) {
        Value::Integer(rowid) => Some(rowid),
        _ => None,
    }
}

/// Bytes in the body for a serial type; `None` for the two reserved types.
fn serial_len(serial: u64) -> Option<usize> {
    Some(match serial {
        0 | 8 | 9 => 0,
        1..=4 => serial as usize,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        _ => usize::try_from((serial - 12) / 2).ok()?,
    })
}

fn value(serial: u64, bytes: &[u8]) -> Value<'_> {
    match serial {
        0 => Value::Null,
        1..=6 => Value::Integer(big_endian(bytes)),
        7 => Value::Real(f64::from_bits(big_endian(bytes) as u64)),
        8 => Value::Integer(0),
        9 => Value::Integer(1),
        _ if serial & 1 == 1 => Value::Text(bytes),
        _ => Value::Blob(bytes),
    }
}

/// A big-endian two's complement integer of at most eight bytes.
fn big_endian(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let start = if negative { -1 } else { 0 };
    bytes.iter().fold(start, |value: i64, &byte| value << 8 | i64::from(byte))
}

/// How text of a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// By bytes.
    Binary,
    /// ASCII letters fold.
    NoCase,
    /// Trailing spaces do not count.
    RTrim,
    /// One that the application defines: it cannot be followed here.
    Unknown,
}

/// How a column of a key is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// How text compares.
    pub collation: Collation,
    /// Whether greater values come first.
    pub descending: bool,
}

/// Compares two values in SQLite's sort order: NULL, numbers, text, blobs. `None` if the collation is unknown
/// and matters.
#[must_use]
pub fn compare(a: Value<'_>, b: Value<'_>, order: Order, encoding: Encoding) -> Option<Ordering> {
    let ordering = match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => a.cmp(&b),
        (Value::Real(a), Value::Real(b)) => a.partial_cmp(&b)?,
        (Value::Integer(a), Value::Real(b)) => integer_real(a, b)?,
        (Value::Real(a), Value::Integer(b)) => integer_real(b, a)?.reverse(),
        (Value::Text(a), Value::Text(b)) => collate(a, b, order.collation, encoding)?,
        (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
        _ => class(a).cmp(&class(b)),
    };
    Some(if order.descending { ordering.reverse() } else { ordering })
}

fn class(value: Value<'_>) -> u8 {
    match value {
        Value::Null => 0,
        Value::Integer(_) | Value::Real(_) => 1,
        Value::Text(_) => 2,
        Value::Blob(_) => 3,
    }
}

/// Exact even if the integer has more digits than a float holds.
fn integer_real(a: i64, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b >= 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    if b < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let whole = b.trunc() as i64;
    Some(a.cmp(&whole).then_with(|| 0f64.partial_cmp(&b.fract()).unwrap_or(Ordering::Equal)))
}

fn collate(a: &[u8], b: &[u8], collation: Collation, encoding: Encoding) -> Option<Ordering> {
    match collation {
        Collation::Binary => Some(a.cmp(b)),
        Collation::NoCase => {
            let (a, b) = (utf8(a, encoding), utf8(b, encoding));
            let fold = |text: &[u8]| text.iter().map(u8::to_ascii_lowercase).collect::<Vec<u8>>();
            Some(fold(&a).cmp(&fold(&b)))
        }
        Collation::RTrim => {
            let (a, b) = (utf8(a, encoding), utf8(b, encoding));
            Some(trimmed(&a).cmp(trimmed(&b)))
        }
        Collation::Unknown => (a == b).then_some(Ordering::Equal),
    }
}

fn trimmed(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// Text of any encoding as UTF-8, in which NOCASE and RTRIM compare.
#[must_use]
pub fn utf8(text: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    let unit = match encoding {
        Encoding::Utf8 => return Cow::Borrowed(text),
        Encoding::Utf16Le => u16::from_le_bytes,
        Encoding::Utf16Be => u16::from_be_bytes,
    };
    let units: Vec<u16> = text.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    Cow::Owned(String::from_utf16_lossy(&units).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Order = Order { collation: Collation::Binary, descending: false };

    /// A naive writer by the format's description.
    fn write_varint(value: u64) -> Vec<u8> {
        if value >> 56 != 0 {
            let mut bytes: Vec<u8> =
                (0..8).map(|group| (value >> (8 + 7 * (7 - group))) as u8 | 0x80).collect();
            bytes.push(value as u8);
            return bytes;
        }
        let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
        (0..groups)
            .rev()
            .map(|group| ((value >> (7 * group)) as u8 & 0x7f) | if group > 0 { 0x80 } else { 0 })
            .collect()
    }

    proptest! {
        #[test]
        fn varints_read_back(value: u64, tail: Vec<u8>) {
            let mut bytes = write_varint(value);
            let length = bytes.len();
            bytes.extend(tail);
            prop_assert_eq!(varint(&bytes), Some((value, length)));
            for cut in 0..length {
                prop_assert_eq!(varint(&bytes[..cut]), None);
            }
        }

        #[test]
        fn any_bytes_decode_without_failure(bytes: Vec<u8>) {
            if let Some(columns) = columns(&bytes) {
                prop_assert!(columns.count() <= bytes.len());
            }
            let _ = last_integer(&bytes);
        }

        #[test]
        fn integers_and_reals_compare_exactly(a: i64, b in any::<f64>()) {
            let naive = (a as i128).cmp(&(b as i128));
            if b.fract() == 0.0 && b.abs() < 1e30 {
                prop_assert_eq!(compare(Value::Integer(a), Value::Real(b), PLAIN, Encoding::Utf8), Some(naive));
            }
        }
    }

    #[test]
    fn a_record_gives_its_values() {
        // 'abc', NULL, -2, 1, 2.5, x'01', 300
        let payload =
            [8, 19, 0, 1, 9, 7, 14, 2, b'a', b'b', b'c', 0xfe, 0x40, 0x04, 0, 0, 0, 0, 0, 0, 1, 1, 44];
        let values: Vec<Value<'_>> = columns(&payload).expect("fits").collect();
        assert_eq!(
            values,
            [
                Value::Text(b"abc"),
                Value::Null,
                Value::Integer(-2),
                Value::Integer(1),
                Value::Real(2.5),
                Value::Blob(&[1]),
                Value::Integer(300),
            ]
        );
        assert_eq!(last_integer(&payload), Some(300));
        assert_eq!(last_integer(&payload[..payload.len() - 1]), None);
    }

    #[test]
    fn values_sort_as_sqlite_sorts_them() {
        let ascending = [
            Value::Null,
            Value::Real(-1e300),
            Value::Integer(i64::MIN),
            Value::Integer(-1),
            Value::Real(-0.5),
            Value::Integer(0),
            Value::Real(0.5),
            Value::Integer(i64::MAX),
            Value::Real(9.3e18),
            Value::Text(b"A"),
            Value::Text(b"a"),
            Value::Blob(b"A"),
        ];
        for (i, &a) in ascending.iter().enumerate() {
            for (j, &b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b, PLAIN, Encoding::Utf8), Some(i.cmp(&j)), "{a:?} {b:?}");
                let descending = Order { descending: true, ..PLAIN };
                assert_eq!(compare(a, b, descending, Encoding::Utf8), Some(j.cmp(&i)));
            }
        }
    }

    #[test]
    fn collations_fold_and_trim() {
        let by = |collation, a: &[u8], b: &[u8], encoding| {
            let order = Order { collation, descending: false };
            compare(Value::Text(a), Value::Text(b), order, encoding)
        };
        assert_eq!(by(Collation::NoCase, b"aBc", b"AbC", Encoding::Utf8), Some(Ordering::Equal));
        assert_eq!(by(Collation::RTrim, b"ab  ", b"ab", Encoding::Utf8), Some(Ordering::Equal));
        assert_eq!(by(Collation::NoCase, b"a\0", b"A\0", Encoding::Utf16Le), Some(Ordering::Equal));
        assert_eq!(by(Collation::Unknown, b"a", b"b", Encoding::Utf8), None);
        assert_eq!(by(Collation::Unknown, b"a", b"a", Encoding::Utf8), Some(Ordering::Equal));
    }
}
