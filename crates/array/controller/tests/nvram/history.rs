//! What the host wrote, and what each block may hold after a cut: the oracle.
//!
//! A write *counts* when it was acknowledged under a promise that covers the cut. A block may hold any write that no
//! other one that counts came wholly after. So a write under way may be there or not, and one that was acknowledged
//! without a promise may be gone, but never so that something older shows through what was promised.

/// What an acknowledged write is safe against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safe {
    /// Nothing was promised.
    No,
    /// In the memory that survives (the own one a power loss, the second controller's a failover).
    InMemory,
    /// On the members, where it survives.
    OnMembers,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) number: u64,
    pub(crate) issued: u64,
    pub(crate) acked: Option<u64>,
    /// Safe against a power loss.
    pub(crate) power: Safe,
    /// Safe against the loss of the controller.
    pub(crate) failover: Safe,
    /// Was promised once, so that its destage survives power loss whatever became of the battery.
    pub(crate) promised: bool,
    /// Counts in the cut that is being checked.
    pub(crate) counts: bool,
}

impl Write {
    pub(crate) fn settled(number: u64, now: u64) -> Self {
        Self {
            number,
            issued: now,
            acked: Some(now),
            power: Safe::OnMembers,
            failover: Safe::OnMembers,
            promised: true,
            counts: true,
        }
    }
}

/// Writes of each block of the volume.
pub(crate) struct History {
    pub(crate) blocks: Vec<Vec<Write>>,
}

impl History {
    pub(crate) fn new(blocks: u64) -> Self {
        Self { blocks: vec![vec![Write::settled(0, 0)]; blocks as usize] }
    }

    pub(crate) fn acked(&mut self) -> impl Iterator<Item = &mut Write> {
        self.blocks.iter_mut().flatten().filter(|write| write.acked.is_some())
    }

    /// Everything acknowledged has reached the members. `volatile_members`: in their caches, but for what was promised.
    pub(crate) fn reached_members(&mut self, volatile_members: bool) {
        for write in self.acked() {
            write.failover = Safe::OnMembers;
            if write.promised || !volatile_members {
                write.power = Safe::OnMembers;
            }
        }
    }

    /// True if `lba` may hold `number`, given the writes that count.
    pub(crate) fn allows(&self, lba: u64, number: u64, counts: impl Fn(&Write) -> bool) -> bool {
        let writes = &self.blocks[lba as usize];
        let Some(held) = writes.iter().find(|write| write.number == number) else { return false };
        let Some(acked) = held.acked else { return true };
        !writes.iter().any(|write| write.acked.is_some() && write.issued > acked && counts(write))
    }

    /// After a check: the block holds one of `numbers`, safely.
    pub(crate) fn settle(&mut self, lba: u64, numbers: &[u64], now: u64) {
        self.blocks[lba as usize] = numbers.iter().map(|&number| Write::settled(number, now)).collect();
    }
}
