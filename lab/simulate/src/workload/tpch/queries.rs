//! The tables of each query of TPC-H, and how it reads them.
//!
//! MySQL 5.0 joins by nested loops only: an outer table is scanned, and for rows that pass its conditions an
//! inner one is looked up by index. Where the inner table was loaded in the order of the outer's key
//! (`lineitem` with `orders`, `partsupp` with `part`), look-ups ascend through it with the scan: alternating
//! sequential access. Elsewhere they are random. For Q2 and Q16 the paper's figure 5 shows the result (Q2:
//! straight lines only, so that its small `supplier` is assumed to be in memory; Q16: mixed, much of it
//! random). For the others the outer table is the one whose conditions TPC-H puts first, and the shares of rows
//! are approximately the selectivities in its text for the validation parameters (clause 2.4).

use super::tables::Table::{self, *};

/// An inner table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Join {
    pub(super) table: Table,
    /// Whether look-ups ascend with the scan.
    pub(super) along: bool,
    /// The share of outer rows for which it is looked up.
    pub(super) share: f64,
    /// How many rows are read then.
    pub(super) rows: u32,
}

/// A query: the scan of an outer table and look-ups in others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Query {
    pub(super) number: u32,
    pub(super) outer: Table,
    pub(super) joins: &'static [Join],
}

const fn along(table: Table, share: f64, rows: u32) -> Join {
    Join { table, along: true, share, rows }
}

const fn random(table: Table, share: f64, rows: u32) -> Join {
    Join { table, along: false, share, rows }
}

const fn query(number: u32, outer: Table, joins: &'static [Join]) -> Query {
    Query { number, outer, joins }
}

/// Q1, which EuroSys'07 leaves out and ATC'08 has.
pub(super) const FIRST: [Query; 1] = [query(1, Lineitem, &[])];

/// Q2 to Q22 (the paper's series leaves Q1 out).
pub(super) const QUERIES: [Query; 21] = [
    query(2, PartSupp, &[along(Part, 1.0, 1)]),
    query(3, Orders, &[random(Customer, 0.49, 1), along(Lineitem, 0.1, 4)]),
    query(4, Orders, &[along(Lineitem, 0.038, 4)]),
    query(5, Orders, &[random(Customer, 0.15, 1), along(Lineitem, 0.15, 4), random(Supplier, 0.15, 4)]),
    query(6, Lineitem, &[]),
    query(7, Lineitem, &[random(Supplier, 0.3, 1), along(Orders, 0.024, 1), random(Customer, 0.024, 1)]),
    query(8, Part, &[random(Lineitem, 0.0067, 30), random(Orders, 0.0067, 30), random(Customer, 0.0067, 4)]),
    query(9, Part, &[random(Lineitem, 0.055, 30), along(PartSupp, 0.055, 4), random(Orders, 0.055, 30)]),
    query(10, Orders, &[random(Customer, 0.038, 1), along(Lineitem, 0.038, 4)]),
    query(11, PartSupp, &[random(Supplier, 0.04, 1)]),
    query(12, Lineitem, &[along(Orders, 0.005, 1)]),
    query(13, Customer, &[random(Orders, 1.0, 10)]),
    query(14, Lineitem, &[random(Part, 0.0125, 1)]),
    query(15, Lineitem, &[random(Supplier, 0.0016, 1)]),
    query(16, Part, &[random(PartSupp, 0.15, 4), random(Supplier, 0.15, 1)]),
    query(17, Part, &[random(Lineitem, 0.001, 60)]),
    query(18, Lineitem, &[along(Orders, 0.00001, 1), random(Customer, 0.00001, 1)]),
    query(19, Lineitem, &[random(Part, 0.02, 1)]),
    query(20, PartSupp, &[along(Part, 0.01, 1), random(Lineitem, 0.01, 7)]),
    query(21, Supplier, &[random(Lineitem, 0.04, 600), random(Orders, 0.04, 300)]),
    query(22, Customer, &[random(Orders, 0.06, 1)]),
];
