//! How far look-ups go: the reads of one key are a group, and a program may stop within each.

use crate::sequence::PageAccess;
use std::collections::VecDeque;

/// Groups that are remembered: if half of eight were left early, the next ones are expected to be.
const KEPT: usize = 8;

/// Groups that must have passed before all count as ending early: a program with fewer look-ups reads little.
const ENOUGH: usize = 4 * KEPT;

/// The passed groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// Reads of the present group up to the last one that was made.
    met: usize,
    /// Reads of it that were passed.
    passed: usize,
    /// Reads in it that were not predicted: it may be longer than the known reads.
    beyond: usize,
    /// How many reads of each are generated, if not all are.
    limit: Option<usize>,
    /// For each of the last ones: how many of its reads were made, and whether it was left before its end.
    last: VecDeque<(usize, bool)>,
    /// The number of all groups.
    count: usize,
}

impl Groups {
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
        // A group without reads was skipped, or came from a cache.
        if self.met > 0 {
            let is_cut = self.limit == Some(self.passed);
            let made = self.met + if is_cut { self.beyond } else { 0 };
            self.last.push_back((made, self.met < self.passed || is_cut));
            self.count += 1;
        }
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
        (self.met, self.passed, self.beyond) = (0, 0, 0);
    }

    /// Whether enough groups have passed for an estimate.
    pub(crate) fn are_known(&self) -> bool {
        self.count >= ENOUGH
    }

    /// The most reads of a group that are likely to be made; `None` if all may be. As many are generated of the
    /// next groups.
    pub(crate) fn most(&mut self) -> Option<usize> {
        let early = self.last.iter().filter(|(_, early)| *early).count();
        let most = self.last.iter().map(|(made, _)| *made).max()?;
        self.limit = (self.last.len() == KEPT && 2 * early >= KEPT).then_some(most);
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageNo;

    /// The estimate after groups of four reads, of which these numbers were made.
    fn most(made: &[usize]) -> Option<usize> {
        let mut groups = Groups::default();
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
