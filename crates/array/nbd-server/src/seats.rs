//! How many clients are served after their handshake.
//!
//! Some seats are reserved for *known* clients: those with a verified certificate, or of the user who serves the array.
//! Others who reach a port can't take them.

/// One in so many seats is kept for known clients.
const KEPT_SHARE: u32 = 8;

/// The seats.
#[derive(Debug)]
pub(crate) struct Seats {
    all: u32,
    kept: u32,
    taken: u32,
}

impl Seats {
    /// So many seats; `some_are_known` where clients can be known at all.
    pub(crate) const fn new(all: u32, some_are_known: bool) -> Self {
        Self { all, kept: if some_are_known { all / KEPT_SHARE } else { 0 }, taken: 0 }
    }

    /// Whether there is a seat for a client.
    pub(crate) const fn is_free_for(&self, is_known: bool) -> bool {
        self.taken < if is_known { self.all } else { self.all - self.kept }
    }

    pub(crate) const fn taken(&self) -> u32 {
        self.taken
    }

    pub(crate) const fn take(&mut self) {
        self.taken += 1;
    }

    pub(crate) const fn give_back(&mut self) {
        self.taken -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_seats_are_for_those_who_are_known() {
        for (all, some_are_known, unknown) in [(64, true, 56), (64, false, 64), (4, true, 4), (8, true, 7)] {
            let mut seats = Seats::new(all, some_are_known);
            let mut taken = 0;
            while seats.is_free_for(false) {
                seats.take();
                taken += 1;
            }
            assert_eq!(taken, unknown);
            while seats.is_free_for(true) {
                seats.take();
                taken += 1;
            }
            assert_eq!(taken, all);
            seats.give_back();
            assert_eq!(seats.is_free_for(false), unknown == all);
        }
    }
}
