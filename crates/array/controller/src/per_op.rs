//! What the parts keep of stripe operations: each its own, so that an operation knows nothing of who asks about it.

use crate::ids::OpId;

/// What a part keeps of each stripe operation, by its number. An operation that ends leaves it as it was for a new one.
#[derive(Debug, Default)]
pub(crate) struct PerOp<T>(Vec<T>);

impl<T: Default> PerOp<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// What is kept of an operation, to change it.
    #[inline]
    pub(crate) fn of(&mut self, id: OpId) -> &mut T {
        let at = id.0 as usize;
        if at >= self.0.len() {
            self.grow(at);
        }
        &mut self.0[at]
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.0.resize_with(at + 1, T::default);
    }

    /// What is kept of an operation, if it was ever asked for.
    #[inline]
    pub(crate) fn known(&self, id: OpId) -> Option<&T> {
        self.0.get(id.0 as usize)
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn known_mut(&mut self, id: OpId) -> Option<&mut T> {
        self.0.get_mut(id.0 as usize)
    }
}
