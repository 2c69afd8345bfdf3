//! Lists through an array of nodes, from the most to the least recently used. A node is known by its slot. Every
//! operation is O(1).

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// The neighbours of a node in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The next more recently used one; [`NONE`] of the newest.
    pub(crate) newer: u32,
    /// The next less recently used one; [`NONE`] of the oldest.
    pub(crate) older: u32,
}

impl AsMut<Self> for Link {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) newest: u32,
    pub(crate) oldest: u32,
}

impl Ends {
    /// Those of an empty list.
    pub(crate) const EMPTY: Self = Self { newest: NONE, oldest: NONE };

    /// Makes a node, which is in no list, the newest of this one.
    pub(crate) fn push(&mut self, nodes: &mut [impl AsMut<Link>], slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        match before {
            NONE => self.oldest = slot,
            before => nodes[before as usize].as_mut().newer = slot,
        }
        *nodes[slot as usize].as_mut() = Link { newer: NONE, older: before };
    }

    /// Takes a node of this list out. What it says of its neighbours stays.
    pub(crate) fn take(&mut self, nodes: &mut [impl AsMut<Link>], slot: u32) {
        let Link { newer, older } = *nodes[slot as usize].as_mut();
        match newer {
            NONE => self.newest = older,
            newer => nodes[newer as usize].as_mut().older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => nodes[older as usize].as_mut().newer = newer,
        }
    }
}
