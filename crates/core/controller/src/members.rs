//! The members: which are present, and how busy each is.

use raidlab_units::{BlockCount, MemberIndex, MemberLba};

#[derive(Clone, Copy, Debug)]
struct Member {
    present: bool,
    in_flight: u32,
    /// Where its latest I/O ended.
    position: MemberLba,
}

/// All members of the array.
#[derive(Debug)]
pub(crate) struct Members {
    members: Vec<Member>,
    missing_count: u16,
}

impl Members {
    pub(crate) fn new(count: u16) -> Self {
        let member = Member { present: true, in_flight: 0, position: MemberLba::ZERO };
        Self { members: vec![member; usize::from(count)], missing_count: 0 }
    }

    #[inline]
    pub(crate) fn is_present(&self, member: MemberIndex) -> bool {
        self.members[member.index()].present
    }

    /// Takes a member out; returns false if it was out already.
    pub(crate) fn remove(&mut self, member: MemberIndex) -> bool {
        let was_present = core::mem::replace(&mut self.members[member.index()].present, false);
        self.missing_count += u16::from(was_present);
        was_present
    }

    /// True if a member is missing.
    #[inline]
    pub(crate) const fn any_missing(&self) -> bool {
        self.missing_count > 0
    }

    /// The members that are present.
    pub(crate) fn present(&self) -> impl Iterator<Item = MemberIndex> + '_ {
        let all = self.members.iter().enumerate();
        all.filter(|(_, member)| member.present).map(|(index, _)| MemberIndex(index as u16))
    }

    #[inline]
    pub(crate) fn begin_io(&mut self, member: MemberIndex, lba: MemberLba, rows: u32) {
        let member = &mut self.members[member.index()];
        member.in_flight += 1;
        member.position = lba + BlockCount(u64::from(rows));
    }

    #[inline]
    pub(crate) fn end_io(&mut self, member: MemberIndex) {
        self.members[member.index()].in_flight -= 1;
    }

    /// How good `member` is for reading at `lba`: fewest in flight first, then the least way to go. The balance
    /// that Linux md strikes between spindles (drivers/md/raid1.c, `read_balance`).
    #[inline]
    pub(crate) fn read_cost(&self, member: MemberIndex, lba: MemberLba) -> (u32, u64) {
        let member = &self.members[member.index()];
        (member.in_flight, member.position.0.abs_diff(lba.0))
    }
}
