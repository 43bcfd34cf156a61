//! Striping over spans: the members are divided into spans of equal size, each with its own layout, and consecutive
//! stripes rotate over the spans.
//! ```text
//!             span 0               span 1
//!          m0   m1   m2         m3   m4   m5
//! row 0    D    D    P          D    D    P        stripes 0 and 1
//! row 1    D    P    D          D    P    D        stripes 2 and 3
//! ```
//! Invariant: a stripe lies within one span.

use super::grid::Divisor;
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// `count` spans, each laid out as `span`.
#[derive(Debug)]
pub(crate) struct Spans<L> {
    span: L,
    span_members: u16,
    count: u16,
    by_count: Divisor,
}

impl<L: Layout> Spans<L> {
    /// `span_count` times the layout of one span.
    pub(super) fn new(span: L, span_count: u16) -> Self {
        let span_members = span.member_count();
        assert!(span_members.checked_mul(span_count).is_some(), "the members of all spans can be counted");
        Self { span, span_members, count: span_count, by_count: Divisor::new(u64::from(span_count)) }
    }
}

impl<L: Layout> Layout for Spans<L> {
    fn shape(&self) -> StripeShape {
        self.span.shape()
    }

    fn member_count(&self) -> u16 {
        self.span_members * self.count
    }

    fn stripe_count(&self) -> StripeCount {
        StripeCount(self.span.stripe_count().0 * u64::from(self.count))
    }

    fn place(&self, stripe: StripeIndex, unit: StripUnit) -> UnitPlace {
        let (stripe_of_span, span) = self.by_count.split(stripe.0);
        let UnitPlace { member, start } = self.span.place(StripeIndex(stripe_of_span), unit);
        UnitPlace { member: MemberIndex(span as u16 * self.span_members + member.0), start }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (span, member_of_span) = (member.0 / self.span_members, member.0 % self.span_members);
        assert!(span < self.count, "{member} is not one of {} members", self.member_count());
        let (stripe, unit, block) = self.span.identify(MemberIndex(member_of_span), lba)?;
        Some((StripeIndex(stripe.0 * u64::from(self.count) + u64::from(span)), unit, block))
    }

    /// The unluckiest failures all hit one span, the luckiest spread evenly.
    fn failures_survived(&self) -> FailuresSurvived {
        let FailuresSurvived { always, at_best } = self.span.failures_survived();
        FailuresSurvived { always, at_best: at_best * self.count }
    }

    /// Stripes are filled in the order of their numbers, and those of a span have the same shape.
    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.span.locate(lba)
    }
}
