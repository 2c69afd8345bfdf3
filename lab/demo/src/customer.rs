//! Rows of TPC-C's customer table, made from a seed.
//!
//! Columns, types and contents are those of the TPC-C specification, clause 1.3 and 4.3.3.1, with
//! two differences, both needed to do what VanDeBogart, Frost and Kohler did (ATC'09 section 5.4):
//!
//! - `c_zip` is nine random digits. TPC-C's is four random digits and `11111`: 10,000 distinct
//!   values, so that rows of one value would be read in table order.
//! - `c_data` is 90 characters longer, so that a row takes about 650 bytes in all, as the paper's
//!   did.
//!
//! The same seed gives the same rows everywhere: a fixed generator (PCG), no floating point.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write;

/// The table, its columns as TPC-C clause 1.3.1 names them.
pub(crate) const TABLE: &str = "CREATE TABLE customer(\
    c_id INTEGER, c_d_id INTEGER, c_w_id INTEGER, c_first TEXT, c_middle TEXT, c_last TEXT, \
    c_street_1 TEXT, c_street_2 TEXT, c_city TEXT, c_state TEXT, c_zip TEXT, c_phone TEXT, \
    c_since TEXT, c_credit TEXT, c_credit_lim REAL, c_discount REAL, c_balance REAL, \
    c_ytd_payment REAL, c_payment_cnt INTEGER, c_delivery_cnt INTEGER, c_data TEXT)";

/// The secondary index of ATC'09 section 5.4.
pub(crate) const INDEX: &str = "CREATE INDEX customer_zip ON customer(c_zip)";

/// The query of ATC'09 section 5.4.
pub const QUERY: &str = "SELECT * FROM customer ORDER BY c_zip";

/// TPC-C clause 1.2.1: customers of a district, districts of a warehouse.
const CUSTOMERS_A_DISTRICT: u64 = 3000;
const DISTRICTS_A_WAREHOUSE: u64 = 10;

/// Syllables of a last name (TPC-C clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Characters of random text: 64, so that six random bits make one. None needs quoting in SQL, and
/// none ends a line or a column of the shell's output.
const TEXT: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -";

/// Length of `c_data`: TPC-C's 300 to 500, and 90 more.
const DATA: (u64, u64) = (390, 590);

/// Makes the rows one after the other.
#[derive(Debug)]
pub(crate) struct Customers {
    random: Pcg64Mcg,
    made: u64,
}

impl Customers {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(seed), made: 0 }
    }

    /// Appends the next row as a parenthesised list of SQL values.
    pub(crate) fn write_next(&mut self, sql: &mut String) {
        let number = self.made;
        self.made += 1;
        let id = number % CUSTOMERS_A_DISTRICT + 1;
        let district = number / CUSTOMERS_A_DISTRICT % DISTRICTS_A_WAREHOUSE + 1;
        let warehouse = number / (CUSTOMERS_A_DISTRICT * DISTRICTS_A_WAREHOUSE) + 1;
        // Writing to a String cannot fail.
        let _ = write!(sql, "({id},{district},{warehouse},'");
        self.text(sql, 8, 16);
        sql.push_str("','OE','");
        let name = if id <= 1000 { id - 1 } else { self.below(1000) } as usize;
        for digit in [name / 100, name / 10 % 10, name % 10] {
            sql.push_str(SYLLABLES[digit]);
        }
        for (shortest, longest) in [(10, 20), (10, 20), (10, 20), (2, 2)] {
            sql.push_str("','");
            self.text(sql, shortest, longest);
        }
        let zip = self.below(1_000_000_000);
        let phone = self.below(10_000_000_000_000_000);
        let (day, second) = (self.below(28) + 1, self.below(86_400));
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let credit = if self.below(10) == 0 { "BC" } else { "GC" };
        let discount = self.below(5001);
        let _ = write!(
            sql,
            "','{zip:09}','{phone:016}','2009-04-{day:02} {hour:02}:{minute:02}:{second:02}','{credit}',\
             50000.0,0.{discount:04},-10.0,10.0,1,0,'"
        );
        self.text(sql, DATA.0, DATA.1);
        sql.push_str("')");
    }

    /// A number from 0 up to and without `limit`: the high half of a product (Lemire's reduction,
    /// whose bias is below 2^-10 here and of no matter).
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Random text of `shortest` to `longest` characters, ten of each random number.
    fn text(&mut self, sql: &mut String, shortest: u64, longest: u64) {
        let mut left = shortest + self.below(longest - shortest + 1);
        while left > 0 {
            let mut bits = self.random.next_u64();
            for _ in 0..left.min(10) {
                sql.push(char::from(TEXT[(bits & 63) as usize]));
                bits >>= 6;
            }
            left -= left.min(10);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(seed: u64, count: usize) -> Vec<String> {
        let mut customers = Customers::new(seed);
        (0..count)
            .map(|_| {
                let mut sql = String::new();
                customers.write_next(&mut sql);
                sql
            })
            .collect()
    }

    #[test]
    fn a_seed_gives_the_same_rows_for_ever() {
        let hash = blake3::hash(rows(1, 1000).concat().as_bytes()).to_hex().to_string();
        assert_eq!(&hash[..16], "616356e5f6ef0e1e");
        assert_ne!(rows(1, 10), rows(2, 10));
    }

    #[test]
    fn keys_count_up_as_tpc_c_numbers_them() {
        let rows = rows(1, 30_001);
        assert!(rows[0].starts_with("(1,1,1,'"));
        assert!(rows[2999].starts_with("(3000,1,1,'"));
        assert!(rows[3000].starts_with("(1,2,1,'"));
        assert!(rows[30_000].starts_with("(1,1,2,'"));
    }

    #[test]
    fn zips_are_distinct_and_unordered() {
        let zips: Vec<String> = rows(7, 5000)
            .iter()
            .map(|row| row.split("','").nth(7).expect("c_zip is the eighth text").to_owned())
            .collect();
        assert!(zips.iter().all(|zip| zip.len() == 9 && zip.bytes().all(|b| b.is_ascii_digit())));
        let rises = zips.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((2300..2700).contains(&rises), "{rises} of 5000 rise");
        let distinct: std::collections::HashSet<_> = zips.iter().collect();
        assert!(distinct.len() > 4990);
    }
}
