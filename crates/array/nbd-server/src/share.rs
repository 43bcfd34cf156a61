//! Distribution of the host buffers among the connections.
//!
//! Each client, also each future one, can have one buffer at any time. It may take another while it holds fewer than
//! are free and not reserved for clients that hold none. So one busy client gets nearly half, two get nearly a third
//! each, and a client that does not read keeps only its own share (dynamic thresholds: A. Choudhury, E. Hahne, "Dynamic
//! Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking, 1998).
//!
//! Invariant: at least one buffer is free for each possible client that holds none.

use raidlab_controller::HostTag;

/// The buffers and who holds them.
#[derive(Debug)]
pub(crate) struct Share {
    free: Vec<u32>,
    /// Buffers that each connection holds; `None` where there is no client that is served.
    held: Vec<Option<u32>>,
    /// Clients that there can be and that hold none.
    empty: u32,
}

impl Share {
    /// Deals `buffers` out to at most `clients` at once, whose connections are numbered below `numbers`.
    pub(crate) fn new(buffers: u32, clients: u32, numbers: u32) -> Self {
        assert!(buffers >= clients, "each client has a buffer");
        Self { free: (0..buffers).rev().collect(), held: vec![None; numbers as usize], empty: clients }
    }

    /// A connection begins to be served.
    pub(crate) fn open(&mut self, connection: u32) {
        let before = self.held[connection as usize].replace(0);
        assert!(before.is_none(), "connection {connection} is open already");
    }

    /// A connection ends; it must hold nothing (asserted).
    pub(crate) fn close(&mut self, connection: u32) {
        let before = self.held[connection as usize].take();
        assert_eq!(before, Some(0), "connection {connection} ends and holds buffers");
    }

    /// Takes a buffer, if the connection may have one more.
    pub(crate) fn take(&mut self, connection: u32) -> Option<HostTag> {
        let held = self.held[connection as usize].as_mut().expect("only open connections take buffers");
        if *held > 0 && u64::from(*held) + u64::from(self.empty) >= self.free.len() as u64 {
            return None;
        }
        self.empty -= u32::from(*held == 0);
        *held += 1;
        Some(HostTag(self.free.pop().expect("one is set aside for each client")))
    }

    /// Gives a buffer back.
    pub(crate) fn give_back(&mut self, connection: u32, buffer: HostTag) {
        let held = self.held[connection as usize].as_mut().expect("only open connections hold buffers");
        *held -= 1;
        self.empty += u32::from(*held == 0);
        self.free.push(buffer.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_gets_half_and_leaves_the_others_theirs() {
        let mut share = Share::new(16, 4, 4);
        share.open(0);
        let mut taken = Vec::new();
        while let Some(buffer) = share.take(0) {
            taken.push(buffer);
        }
        assert_eq!(taken.len(), 7);
        for connection in 1..4 {
            share.open(connection);
        }
        assert_eq!(share.take(0), None);
        let others: Vec<usize> =
            (1..4).map(|connection| std::iter::from_fn(|| share.take(connection)).count()).collect();
        assert_eq!(others, [4, 2, 2]);
        for buffer in taken {
            share.give_back(0, buffer);
        }
        share.close(0);
    }

    #[test]
    fn everybody_can_have_one_at_any_time() {
        let mut share = Share::new(5, 5, 5);
        (0..5).for_each(|connection| share.open(connection));
        for connection in 0..5 {
            assert!(share.take(connection).is_some());
            assert_eq!(share.take(connection), None);
        }
    }

    /// Each came when those before it had taken all they could, and for the sixth there was nothing: the server panicked.
    #[test]
    fn those_who_come_late_have_theirs() {
        let mut share = Share::new(16, 8, 8);
        for connection in 0..8 {
            share.open(connection);
            assert!(share.take(connection).is_some(), "client {connection} gets nothing");
            while share.take(connection).is_some() {}
        }
    }
}
