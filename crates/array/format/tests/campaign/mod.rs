//! A campaign against everything that parses bytes: arrays are drawn, checked, then damaged and checked again.
//!
//! ```text
//! seed ── case 0, 1, 2 ... ── draw ── undamaged: the drawn array is found
//!                                └── 16 times: damage 1 to 6 things ── check the rules for any bytes
//! ```
//! `fuzz/kit` has the seeds, the cases and the counting. An outcome is that of one set of candidates through decoding,
//! scanning and four assemblies.
//!
//! Not verified: time; that refusals were necessary.

#![allow(dead_code, reason = "the test uses a part of it")]

mod check;
mod draw;
#[path = "../../../../../fuzz/kit/mod.rs"]
pub(crate) mod kit;
mod mutate;

use check::{OUTCOMES, Outcome};
use draw::Drawn;
use kit::{Campaign, Rng};
use mutate::Handed;
use raidlab_format::{Assembly, LogPlace, MetadataPolicy, NvramVerdict, RegionIndex, StartOptions, assemble};
use std::collections::{BTreeMap, BTreeSet};

const DAMAGES_PER_CASE: usize = 16;

/// The campaign.
pub(crate) struct Metadata;

impl Campaign for Metadata {
    type Outcome = Outcome;

    const OUTCOMES: &'static [Outcome] = &OUTCOMES;

    fn case(rng: &mut Rng<'_>, outcomes: &mut Vec<Outcome>) {
        case(rng, DAMAGES_PER_CASE, outcomes);
    }
}

/// Runs the case that an input decides, damaged once, and panics when it fails.
pub(crate) fn run_input(input: &[u8]) {
    case(&mut Rng::from_input(input), 1, &mut Vec::new());
}

fn case(rng: &mut Rng<'_>, damages: usize, outcomes: &mut Vec<Outcome>) {
    let (drawn, other) = (Drawn::new(rng), Drawn::new(rng));
    check_undamaged(&drawn);
    let (original, other) = (handed(&drawn), handed(&other));
    let mut damaged = original.clone();
    for _ in 0..damages {
        // Damage adds up for a while, so that one rare thing meets another.
        if rng.one_in(4) {
            damaged = original.clone();
        }
        for _ in 0..=rng.below(6) {
            damaged.mutate(rng, &other);
        }
        let accept = rng.one_in(4);
        let expected = rng.one_in(8).then_some(drawn.array.state.geometry.array_uuid);
        let options =
            StartOptions { expected, accept_minority: accept, accept_write_hole: accept && rng.one_in(2) };
        outcomes.push(check::check(&damaged, options));
    }
}

fn handed(drawn: &Drawn) -> Handed {
    let array = &drawn.array;
    Handed {
        areas: array.areas.iter().cloned().map(Some).collect(),
        nvram_log: array.nvram_log.clone(),
        directory: array.directory.clone(),
        block_size: array.state.geometry.block_size,
    }
}

/// Checks that all that was drawn is found.
fn check_undamaged(drawn: &Drawn) {
    let array = &drawn.array;
    let options = StartOptions { accept_write_hole: true, ..StartOptions::default() };
    let assembly = assemble(&array.candidates(), Some(array.kept()), options).expect("a drawn array starts");
    assert_eq!(assembly.state, array.state);
    let usable = |device: usize| {
        let missing = array.state.devices[device].state == raidlab_format::DeviceState::Missing;
        (!missing).then_some(device)
    };
    assert!(assembly.present.iter().copied().eq((0..array.areas.len()).map(usable)));
    assert_eq!(assembly.kept, NvramVerdict::Used);
    let slots: BTreeSet<u32> = assembly.nvram_entries.iter().map(|(slot, _)| *slot).collect();
    assert_eq!(slots, drawn.nvram_slots);
    let replayed = assembly.records.iter().map(|record| (record.sequence, record.copies.len()));
    assert_eq!(replayed.collect::<BTreeMap<_, _>>(), drawn.replayed);
    check_out_of_sync(drawn, &assembly);
}

/// Checks the regions out of sync against the table of the design, policy by policy.
fn check_out_of_sync(drawn: &Drawn, assembly: &Assembly) {
    let (state, map) = (&drawn.array.state, &assembly.out_of_sync);
    let shape = state.check().expect("possible").shape();
    let all: BTreeSet<u16> = (0..map.regions()).collect();
    let none = BTreeSet::new();
    let no_log = state.log_place == LogPlace::Members && state.geometry.log_bytes.0 == 0;
    let expected = match state.geometry.metadata {
        _ if shape.parities == 0 && shape.copies == 1 && !state.geometry.integrity => &none,
        _ if state.needs_resync => &all,
        MetadataPolicy::Bitmap => &drawn.marked_regions,
        MetadataPolicy::Log if shape.parities == 0 => &drawn.marked_regions,
        MetadataPolicy::Log if state.dirty && no_log => &all,
        MetadataPolicy::None | MetadataPolicy::Resync if state.dirty => &all,
        MetadataPolicy::None | MetadataPolicy::Resync | MetadataPolicy::Log => &none,
    };
    let found: BTreeSet<u16> =
        (0..map.regions()).filter(|region| map.is_marked(RegionIndex(*region))).collect();
    assert_eq!(found, *expected);
}
