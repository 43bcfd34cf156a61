//! What a set of devices is: which array, which devices are present or stale, what to replay, what is out of sync.
//!
//! ```text
//! candidates ── labels ──► which array ── states ──► newest ──► present, stale, foreign, blank, unusable
//!                                                       │
//!     quorum ◄──────────────────────────────────────────┘
//!       │
//!       └──► log or bitmap ──► records to replay, regions out of sync ──► refuse when dirty and degraded
//! ```
//! **Newest** is the highest generation on any candidate, even on one that can't be used. If two different states have
//! that generation, the one counts that is on more than half of the devices it calls in sync; if both are, the start is
//! refused. If neither is, one that was **never complete** counts as never written: all devices that it calls in sync are
//! there, with it or with the generation before as its start found it. Nothing relied on it (the barrier), so a crash before its
//! first write could have left the same array without it. If neither was complete, the one counts that leaves most in sync.
//!
//! **Stale** is a device that the newest state calls missing, whose generation is two or more behind, that missed the start
//! which wrote the newest state, or that has another state of the same generation; also a physical device other than the one that
//! the newest state names. A device one generation behind is not stale if its state was written by that start, or found by it: the
//! crash came between the writes of the newest generation, and nothing that relied on it was acknowledged before all had it (the
//! barrier), so the device has all acknowledged data. A copy from before that start does not have its nonce.
//!
//! **Doubt** is why redundancy may disagree. A parity array in doubt is refused if a role has no device in sync: the
//! missing member's data can't be told from garbage.
//!
//! Left out: whether the present members are enough for the level, which is decided where the array is started; the
//! devices' contents beyond their metadata.

mod candidate;
mod error;
mod intent;
mod replay;
mod roster;

pub(crate) use candidate::newer_version;
pub use error::{AssembleError, StartedApart};
pub use intent::{Doubt, NvramVerdict};
pub use replay::{LogSource, LogTrouble, PayloadPlace, Replay};
pub use roster::{Foreign, LackReason, Lacking, Stale, StaleReason, Unusable, UnusableReason, stale_reason};

use crate::bitmap::RegionMap;
use crate::identity::ArrayUuid;
use crate::label::ArrayName;
use crate::nvram::{NvramEntry, NvramImage};
use crate::seal::version;
use crate::state::ArrayState;
use crate::written::{WRITTEN_SINCE_VERSION, WrittenMap};
use candidate::Candidate;
use intent::{Found, Intent};
use roster::Roster;

/// What the operator said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// Which array; if not given, the one that most of the candidates belong to.
    pub expected: Option<ArrayUuid>,
    /// Start with half or less of the members in sync: the absent ones are gone for good, and what may have
    /// been written to them without these is lost.
    pub accept_minority: bool,
    /// Start although the missing members' data may be wrong where a crash came between writes.
    pub accept_write_hole: bool,
}

/// What a set of devices is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// What people call the array.
    pub name: ArrayName,
    /// The newest state, as it stands on the devices; of the starts that found it, all that any of them names.
    pub state: ArrayState,
    /// For each device of the array, the candidate that is it, or `None` when it is not there or must not be
    /// used.
    pub present: Vec<Option<usize>>,
    /// Candidates that were of the array and are not used.
    pub stale: Vec<Stale>,
    /// Candidates of other arrays.
    pub foreign: Vec<Foreign>,
    /// Candidates with nothing but zeros where label and states should be.
    pub blank: Vec<usize>,
    /// Candidates of which not enough can be read.
    pub unusable: Vec<Unusable>,
    /// Stripes whose redundancy may disagree once the records are replayed.
    pub out_of_sync: RegionMap,
    /// Why, when any are.
    pub doubt: Option<Doubt>,
    /// Whether the start was only possible because the operator accepted the write hole: redundancy is to be
    /// believed where members are missing.
    pub write_hole_accepted: bool,
    /// Whether the start was only possible because the operator accepted a minority.
    pub minority_accepted: bool,
    /// What is to be written again, in this order, before anything else.
    pub records: Vec<Replay>,
    /// What became of the NVRAM.
    pub kept: NvramVerdict,
    /// The slots of the kept cache that hold something, in order of sequence.
    pub nvram_entries: Vec<(u32, NvramEntry)>,
    /// Higher than the sequence of every record found, and not below the tail: where sequences go on, and
    /// what the tail becomes once the records are replayed.
    pub next_log_sequence: u64,
    /// Higher than the sequence of every valid bitmap sector found.
    pub next_bitmap_sequence: u64,
    /// Which regions have been written; none where that is not recorded.
    pub written: Option<WrittenMap>,
    /// Higher than the sequence of every valid sector of it found.
    pub next_written_sequence: u64,
    /// Something may have been written before that was recorded: a version that doesn't has labelled some device.
    pub may_be_unrecorded: bool,
}

/// Decides what the devices are.
///
/// Each candidate is its metadata area, in any order, or `None` when it can't be read. An area may be longer
/// than [`crate::AreaLayout::total_bytes`].
///
/// # Errors
/// [`AssembleError`] when they are no array that may be started; the message says what would help.
#[expect(clippy::missing_panics_doc, reason = "what was decoded has passed these checks")]
pub fn assemble(
    candidates: &[Option<&[u8]>],
    kept: Option<NvramImage<'_>>,
    options: StartOptions,
) -> Result<Assembly, AssembleError> {
    let mut candidates: Vec<Candidate<'_>> = candidates.iter().map(|area| Candidate::read(*area)).collect();
    candidate::refuse_newer_labels(&candidates)?;
    let array_uuid = candidate::choose_array(&candidates, options.expected)?;
    candidate::refuse_newer_states(&candidates, array_uuid)?;
    let state = candidate::choose_state(&mut candidates, array_uuid)?;
    let layout = state.check().expect("a state that was decoded passes its own check");
    let roster = Roster::sort(&candidates, &state)?;
    let minority_accepted = roster.check_quorum(&state, layout.as_ref(), options.accept_minority)?;
    let (kept, image) = intent::judge_kept(kept, &state)?;
    let found =
        Found { state: &state, layout: layout.as_ref(), roster: &roster, kept: image, nvram_verdict: &kept };
    let intent = found.read_intent(options.accept_write_hole)?;
    let (written, written_sequence) = found.read_written();
    let mut labelled = roster.present.iter().flatten().map(|candidate| &candidates[*candidate]);
    let may_be_unrecorded = labelled.any(|it| it.label.is_ok() && version(it.area) < WRITTEN_SINCE_VERSION);
    let write_hole_accepted = check_hole(&found, &intent, options.accept_write_hole)?;
    let mut nvram_entries: Vec<_> = image.iter().flat_map(NvramImage::entries).collect();
    nvram_entries.sort_by_key(|(slot, entry)| (entry.sequence, *slot));
    let named =
        roster.present.iter().flatten().find_map(|candidate| candidates[*candidate].label.as_ref().ok());
    let name = named.map_or_else(ArrayName::default, |label| label.name);
    let after = |sequence: Option<u64>| sequence.map_or(0, |sequence| sequence + 1);
    let Roster { present, stale, foreign, blank, unusable, .. } = roster;
    Ok(Assembly {
        name,
        present,
        stale,
        foreign,
        blank,
        unusable,
        out_of_sync: intent.out_of_sync,
        doubt: intent.doubt,
        write_hole_accepted,
        minority_accepted,
        next_log_sequence: after(intent.log_sequence).max(state.log_tail),
        next_bitmap_sequence: after(intent.bitmap_sequence),
        written,
        next_written_sequence: after(written_sequence),
        may_be_unrecorded,
        records: intent.records,
        kept,
        nvram_entries,
        state,
    })
}

/// Checks that no parity in doubt is needed to know what a missing member held; returns whether it is and
/// that is accepted.
fn check_hole(found: &Found<'_, '_>, intent: &Intent, accept: bool) -> Result<bool, AssembleError> {
    let Some(doubt) = intent.doubt.clone() else { return Ok(false) };
    let lacking = found.roster.lacking(found.state);
    if found.layout.shape().parities == 0 || lacking.is_empty() {
        return Ok(false);
    }
    if accept {
        return Ok(true);
    }
    let is_enough = found.roster.is_enough(found.state, found.layout);
    Err(AssembleError::DirtyDegraded { doubt, lacking, is_enough })
}
