//! How far look-ups go: the reads of one key are a group, and a program may stop within each.

use crate::sequence::PageAccess;
use std::collections::VecDeque;

/// Groups that are remembered: if half of eight were left early, the next ones are expected to be.
const KEPT: usize = 8;

/// Groups that must have passed before all count as ending early: a program with fewer look-ups reads little.
const ENOUGH: usize = 4 * KEPT;

/// What a statement shows of its look-ups before any of them is followed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    /// Each ends at a matching row, after which the loop goes on.
    pub(crate) stops: bool,
    /// The reads of one, if it may end before its last row.
    pub(crate) expected: Option<usize>,
}

/// The passed groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    extent: Extent,
    /// The generated groups that are not over: how many there are of each limit, in their order.
    coming: VecDeque<(usize, Option<usize>)>,
    /// Reads of the present group up to the last one that was made.
    met: usize,
    /// Reads of it that were passed.
    passed: usize,
    /// Reads in it that were not predicted: it may be longer than the known reads.
    beyond: usize,
    /// For each of the last ones: how many of its reads were made, and whether it was left before its end.
    last: VecDeque<(usize, bool)>,
    /// The number of all groups.
    count: usize,
}

impl Groups {
    pub(crate) fn new(extent: Extent) -> Self {
        Self { extent, ..Self::default() }
    }

    /// So many groups were generated, with at most `limit` reads each.
    pub(crate) fn generated(&mut self, groups: usize, limit: Option<usize>) {
        match self.coming.back_mut() {
            Some((count, last)) if *last == limit => *count += groups,
            _ if groups > 0 => self.coming.push_back((groups, limit)),
            _ => {}
        }
    }

    /// The limit of the present group, which is over.
    fn take_limit(&mut self) -> Option<usize> {
        let (count, limit) = self.coming.front_mut()?;
        let limit = *limit;
        *count -= 1;
        if *count == 0 {
            self.coming.pop_front();
        }
        limit
    }

    /// These reads were passed, and then `front` was made. The first read of each group is marked.
    pub(crate) fn pass<'a>(&mut self, passed: impl Iterator<Item = &'a PageAccess>, front: &'a PageAccess) {
        for access in passed.skip(1).chain(std::iter::once(front)) {
            self.passed += 1;
            if access.mark {
                self.end();
            }
        }
        self.met = self.passed + 1;
    }

    /// A row of the look-ups' table was read that was not predicted.
    pub(crate) fn add_unpredicted(&mut self) {
        self.beyond += 1;
    }

    /// A group is over.
    fn end(&mut self) {
        let limit = self.take_limit();
        // A group without reads was skipped, or came from a cache.
        if self.met > 0 {
            let is_cut = limit == Some(self.passed);
            let made = self.met + if is_cut { self.beyond } else { 0 };
            self.last.push_back((made, self.met < self.passed || is_cut));
            self.count += 1;
        }
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
        (self.met, self.passed, self.beyond) = (0, 0, 0);
    }

    /// Whether the statement shows that look-ups stop, and enough of them have passed to show how far they go.
    pub(crate) fn show_end(&self) -> bool {
        self.extent.stops && self.count >= ENOUGH
    }

    /// The most reads of a group that are likely to be made; `None` if all may be.
    pub(crate) fn most(&self) -> Option<usize> {
        let early = self.last.iter().filter(|(_, early)| *early).count();
        let most = self.last.iter().map(|(made, _)| *made).max();
        if self.last.len() < KEPT {
            return self.extent.expected.max(self.extent.expected.and(most));
        }
        most.filter(|_| 2 * early >= KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageNo;

    /// The estimate after groups of four reads, of which these numbers were made.
    fn most(made: &[usize]) -> Option<usize> {
        let mut groups = Groups::default();
        groups.generated(made.len() + 1, None);
        let all: Vec<PageAccess> = (0..4 * made.len() as u32 + 1)
            .map(|at| PageAccess { page: PageNo(at + 1), mark: at % 4 == 0 })
            .collect();
        let mut at = 0;
        for (group, &made) in made.iter().enumerate() {
            for to in 4 * group..4 * group + made {
                // The front is passed when the next one is made.
                if to > at {
                    groups.pass(all[at..to].iter(), &all[to]);
                }
                at = to;
            }
        }
        let last = all.len() - 1;
        groups.pass(all[at..last].iter(), &all[last]);
        groups.most()
    }

    #[test]
    fn generated_rows_of_a_look_up_are_not_taken_for_all_its_rows() {
        let mut groups = Groups::default();
        let mut page = 0;
        // A look-up of so many reads, all of which are made, and then so many that were not predicted.
        let mut look_up = |groups: &mut Groups, reads: usize, beyond: usize| {
            groups.generated(1, groups.most());
            for at in 0..reads {
                page += 1;
                let [last, next] = [page, page + 1].map(PageNo);
                let passed = [PageAccess { page: last, mark: at == 0 }];
                groups.pass(passed.iter(), &PageAccess { page: next, mark: at + 1 == reads });
                if at + 2 == reads {
                    (0..beyond).for_each(|_| groups.add_unpredicted());
                }
            }
        };
        groups.last = vec![(2, true); KEPT].into();
        assert_eq!(groups.most(), Some(2));
        for _ in 0..20 {
            look_up(&mut groups, 2, 0);
            assert_eq!(groups.most(), Some(2));
        }
        look_up(&mut groups, 2, 3);
        assert_eq!(groups.most(), Some(5), "one went further");
    }

    #[test]
    fn the_first_look_ups_that_may_end_early_are_followed_as_far_as_expected() {
        let mut groups = Groups::new(Extent { stops: true, expected: Some(3) });
        assert_eq!(groups.most(), Some(3));
        let reads =
            |limit: usize| (0..=limit).map(move |at| PageAccess { page: PageNo(1), mark: at % limit == 0 });
        for (limit, beyond, most) in [(3, 0, Some(3)), (3, 2, Some(5)), (5, 0, Some(5))] {
            groups.generated(1, Some(limit));
            let all: Vec<PageAccess> = reads(limit).collect();
            groups.pass(all[..limit - 1].iter(), &all[limit - 1]);
            (0..beyond).for_each(|_| groups.add_unpredicted());
            groups.pass(all[limit - 1..limit].iter(), &all[limit]);
            assert_eq!(groups.most(), most);
        }
        assert_eq!(Groups::default().most(), None, "each is read to its end");
    }

    #[test]
    fn look_ups_that_stop_are_expected_to_stop_again() {
        assert_eq!(most(&[2; 9]), Some(2));
        assert_eq!(most(&[2, 2, 3, 2, 2, 2, 1, 2, 2]), Some(3));
        assert_eq!(most(&[2; 4]), None, "too few for an estimate");
        assert_eq!(most(&[2, 2, 2, 2, 2, 2, 4, 2, 2]), Some(4), "one went to its end");
        assert_eq!(most(&[4, 4, 2, 4, 4, 4, 4, 2, 4]), None, "most did");
        assert_eq!(
            most(&[2, 2, 0, 2, 2, 2, 0, 2, 2, 2, 2]),
            Some(2),
            "those that were passed over say nothing"
        );
    }
}
