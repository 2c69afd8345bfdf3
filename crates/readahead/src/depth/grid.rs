//! The logarithmic grid of stream lengths: each page at first, then four points an octave.

use foreseek_units::{Bytes, Pages};

/// Up to here every page is a point: random readers read one or two pages, and four would cost them a
/// thirtieth of a positioning each time.
const FIRST: u64 = 8;
/// The last point: 1 GiB. Whatever the depth, a positioning costs next to nothing there.
pub const LENGTH_LIMIT: Pages = Bytes::gib(1).pages_floor();
/// Points of the grid: each page below [`FIRST`], and four an octave from there to [`LENGTH_LIMIT`].
pub(crate) const POINTS: usize = 1 + FIRST as usize + 4 * (LENGTH_LIMIT.0.ilog2() - FIRST.ilog2()) as usize;
/// Cells between the points; beyond the last point lengths are not distinguished.
pub(crate) const CELLS: usize = POINTS - 1;

/// The grid's points below `end`, and `end` itself.
pub(crate) fn points(end: Pages) -> Vec<u64> {
    let end = end.min(LENGTH_LIMIT).get();
    let mut all: Vec<u64> = (0..POINTS).map(point).take_while(|point| *point < end).collect();
    all.push(end);
    all
}

/// The largest point that does not exceed this many pages.
pub(crate) fn point_below(pages: u64) -> usize {
    if pages < FIRST {
        return pages as usize;
    }
    let octave = pages.min(LENGTH_LIMIT.get()).ilog2();
    let quarter = (pages.min(LENGTH_LIMIT.get()) >> (octave - 2)) & 3;
    FIRST as usize + 4 * (octave - FIRST.ilog2()) as usize + quarter as usize
}

/// The cell of a length: above the cell's lower point, up to its upper one. `None` for no pages and beyond
/// the grid.
pub(crate) fn cell(length: Pages) -> Option<usize> {
    let cell = point_below(length.get().checked_sub(1)?);
    (cell < CELLS).then_some(cell)
}

/// The point with this index.
pub(crate) fn point(at: usize) -> u64 {
    match at.checked_sub(FIRST as usize) {
        None => at as u64,
        Some(step) => (4 + step as u64 % 4) << (step / 4 + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_grid_has_four_points_an_octave() {
        let first: Vec<u64> = points(Pages(40));
        assert_eq!(first, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]);
        assert_eq!(points(Pages(u64::MAX)).last(), Some(&LENGTH_LIMIT.get()));
        assert_eq!(points(Pages(3)), [0, 1, 2, 3]);
        assert_eq!((point(CELLS), CELLS), (LENGTH_LIMIT.get(), 68));
    }

    #[test]
    fn a_cell_holds_its_upper_point_and_not_its_lower_one() {
        let cells = [0, 1, 4, 5, 16, 17].map(|pages| cell(Pages(pages)));
        assert_eq!(cells, [None, Some(0), Some(3), Some(4), Some(11), Some(12)]);
        assert_eq!((cell(LENGTH_LIMIT), cell(LENGTH_LIMIT + Pages(1))), (Some(CELLS - 1), None));
    }

    proptest! {
        #[test]
        fn the_point_below_is_the_one_that_a_search_finds(pages in 0..LENGTH_LIMIT.0 + 100) {
            let all = points(LENGTH_LIMIT);
            let searched = all.partition_point(|point| *point <= pages) - 1;
            prop_assert_eq!(point_below(pages), searched);
        }
    }
}
