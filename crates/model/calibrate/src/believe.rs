//! Whether figures can be those of a drive. Caches, hypervisors and other work change times, and from such times the
//! same arithmetic still makes figures: a channel of 10^9 MB/s, or 148 channels. What no drive on sale comes near to is
//! refused with its reason; nothing is written of it.
//!
//! The limits are several times what there is: a bus of flash moves 4.8 GB/s (ONFI 6), sixteen lanes of PCI Express 6.0
//! 121 GB/s, controllers have up to 32 channels, platters turn 3,600 to 15,000 times a minute.

use crate::{FlashFound, Found, RotationalFound};

const CHANNELS_MAX: u32 = 64;
const DIES_PER_CHANNEL_MAX: u32 = 64;
const CHANNEL_RATE_MAX: f64 = 16e9;
const LINK_RATE_MAX: f64 = 128e9;
const MEDIA_RATE_MAX: f64 = 2e9;
/// The fastest flash senses a page in 3 us.
const PAGE_READ_NS_MIN: f64 = 1e3;
const TURN_NS: (f64, f64) = (3e6, 20e6);

impl Found {
    /// Why it is not believed, reason by reason; empty where nothing speaks against it.
    pub fn doubts(&self) -> Vec<String> {
        let rows = match self {
            Self::Flash(found) => flash(found),
            Self::Rotational(found) => rotational(found),
        };
        rows.into_iter().filter_map(|(is_doubtful, why)| is_doubtful.then_some(why)).collect()
    }
}

fn flash(found: &FlashFound) -> Vec<(bool, String)> {
    let FlashFound { channels, dies, .. } = *found;
    let (channel, link) = (found.channel_rate.value, found.link_rate.value);
    let mb = |rate: f64| rate / 1e6;
    vec![
        (channels > CHANNELS_MAX, format!("{channels} channels, and no drive has {CHANNELS_MAX}")),
        (
            !dies.is_multiple_of(channels.max(1)) || dies / channels.max(1) > DIES_PER_CHANNEL_MAX,
            format!("{dies} dies on {channels} channels"),
        ),
        (
            found.page_read_ns.value < PAGE_READ_NS_MIN,
            format!("a page read in {:.3} us, as from a cache", found.page_read_ns.value / 1e3),
        ),
        (
            !(channel > 0.0 && channel <= CHANNEL_RATE_MAX),
            format!("a channel of {:.0} MB/s: whole pages take no longer than halves", mb(channel)),
        ),
        (
            !(link > 0.0 && link <= LINK_RATE_MAX),
            format!("a link of {:.0} MB/s: the parts of a read take longer than a whole one", mb(link)),
        ),
    ]
}

fn rotational(found: &RotationalFound) -> Vec<(bool, String)> {
    let (turn, outer, inner) = (found.turn_ns.value, found.outer_rate.value, found.inner_rate.value);
    let seeks = [found.seek_single_ns.value, found.seek_average_ns.value, found.seek_full_ns.value];
    vec![
        (!(TURN_NS.0..=TURN_NS.1).contains(&turn), format!("a turn of {:.3} ms", turn / 1e6)),
        (
            !(inner > 0.0 && outer <= MEDIA_RATE_MAX),
            format!("{:.0} MB/s outside and {:.0} inside", outer / 1e6, inner / 1e6),
        ),
        (
            !(seeks[0] > 0.0 && seeks.is_sorted()),
            format!(
                "seeks of {:.3}, {:.3} and {:.3} ms over a track, on average and from edge to edge",
                seeks[0] / 1e6,
                seeks[1] / 1e6,
                seeks[2] / 1e6
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;

    fn drive() -> FlashFound {
        FlashFound {
            capacity: 1 << 40,
            latency_ns: Estimate::exact(90e3),
            overhead_ns: Estimate::exact(2e3),
            page_read_ns: Estimate::exact(50e3),
            channels: 8,
            dies: 64,
            channel_rate: Estimate::exact(1.2e9),
            channel_per_transfer_ns: Estimate::exact(1e3),
            link_rate: Estimate::exact(7e9),
            page_program_ns: None,
            queue: Vec::new(),
        }
    }

    /// The disk of a virtual machine once had 148 channels of 1,000,000,000 MB/s.
    #[test]
    fn what_no_drive_is_like_is_not_believed() {
        let fast = Estimate::exact(1e15);
        let rows = [
            (drive(), 0),
            (FlashFound { channels: 1, dies: 1, ..drive() }, 0),
            (FlashFound { channels: 148, dies: 148, ..drive() }, 1),
            (FlashFound { channel_rate: fast, ..drive() }, 1),
            (FlashFound { channels: 148, dies: 148, channel_rate: fast, link_rate: fast, ..drive() }, 3),
            (FlashFound { dies: 63, ..drive() }, 1),
            (FlashFound { page_read_ns: Estimate::exact(-200.0), ..drive() }, 1),
            (FlashFound { channel_rate: Estimate::exact(f64::NAN), ..drive() }, 1),
        ];
        for (row, (found, doubts)) in rows.into_iter().enumerate() {
            let said = Found::Flash(Box::new(found)).doubts();
            assert_eq!(said.len(), doubts, "row {row}: {said:?}");
        }
    }
}
