//! Back-off of callbacks to an application that gives no hints.
//!
//! The paper calls back at every read that is not on the list. A callback can be expensive (it may read an
//! index), and an application that reads a watched file for another purpose has no answer. So after a question
//! without a useful answer, the next occasions to ask are skipped: two, then four, up to 1024. A useful answer
//! ends this.

/// At most 2^10 occasions are skipped in a row: an application that changes its plan is asked again within
/// about a second of random reads.
const USELESS_LIMIT: u32 = 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Patience {
    useless: u32,
    pause: u32,
}

impl Patience {
    /// Whether to ask on this occasion.
    pub(crate) fn may_ask(&mut self) -> bool {
        let asks = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        asks
    }

    pub(crate) fn answered(&mut self, helped: bool) {
        self.useless = if helped { 0 } else { (self.useless + 1).min(USELESS_LIMIT) };
        self.pause = if helped { 0 } else { 1 << self.useless };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_less_and_less_often_until_an_answer_helps() {
        let mut patience = Patience::default();
        let mut gaps = Vec::new();
        for _ in 0..13 {
            let left_out = std::iter::from_fn(|| (!patience.may_ask()).then_some(())).count();
            gaps.push(left_out);
            patience.answered(false);
        }
        assert_eq!(gaps, [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        patience.answered(true);
        assert!(patience.may_ask());
        assert!(patience.may_ask());
    }
}
