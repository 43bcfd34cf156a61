//! The catalogue entry of a calibrated drive: each figure with its method and its interval, and usual values, marked as
//! such, for figures that timing can't reveal.

use crate::estimate::Estimate;
use crate::rotational::MARGIN_NS;
use crate::{FlashFound, Found, RotationalFound, queueing};
use std::fmt::Write;

/// Bytes of a sector, as the catalogue counts them.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// What timing does not tell of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryNames {
    /// Name in the catalogue.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Link of the catalogue, `sas-6g`.
    pub link: String,
    /// Number of heads.
    pub heads: u32,
}

impl Found {
    /// The entry, in TOML.
    #[expect(clippy::missing_panics_doc, reason = "what is printed has been found")]
    pub fn entry(&self, names: &EntryNames) -> String {
        let mut text = String::new();
        match self {
            Self::Rotational(found) => {
                let mut untried = String::new();
                rotational(&mut untried, found, names, None).and_then(|()| {
                    rotational(&mut text, found, names, queueing::age_weight(found, names, untried))
                })
            }
            Self::Flash(found) => flash(&mut text, found, names),
        }
        .expect("writing to a string can't fail");
        text
    }
}

const USUAL: &str = "estimated: not found from timing; the usual order of magnitude";

/// `{ value = "3.400 ms", source = "fitted: by calibration, 3.380 to 3.420 ms" }`.
fn figure(found: &Estimate, factor: f64, unit: &str) -> String {
    let it = found.times(factor);
    // Times in the catalogue are whole nanoseconds.
    let digits = match unit {
        "ms" => 6,
        _ => 3,
    };
    format!(
        r#"{{ value = "{:.digits$} {unit}", source = "fitted: by calibration, {:.digits$} to {:.digits$} {unit} with 95 %" }}"#,
        it.value.max(0.0),
        it.low.max(0.0),
        it.high.max(0.0)
    )
}

fn head(text: &mut String, kind: &str, capacity: u64, form: &str, names: &EntryNames) -> std::fmt::Result {
    let quoted = |text: &str| text.replace(['"', '\\'], "'").replace(char::is_control, " ");
    write!(
        text,
        "schema = 1\nkind = \"{kind}\"\nid = \"{}\"\nname = \"{}\"\nform_factor = \"{form}\"\n\
         capacity_sectors = {{ value = {}, source = \"fitted: by calibration, as the target says\" }}\n\n",
        quoted(&names.id),
        quoted(&names.name),
        capacity / SECTOR_BYTES,
    )
}

fn interface(text: &mut String, rate: &Estimate, names: &EntryNames) -> std::fmt::Result {
    writeln!(text, "[interface]\nlink = \"{}\"\nrate = {}\n", names.link, figure(rate, 1e-6, "MB/s"))
}

fn rotational(
    text: &mut String,
    found: &RotationalFound,
    names: &EntryNames,
    age_weight: Option<f64>,
) -> std::fmt::Result {
    head(text, "hard-drive", found.capacity, "3.5 inch", names)?;
    let rpm = |turn_ns: f64| 60e9 / turn_ns;
    let turn = &found.turn_ns;
    interface(text, &found.link_rate, names)?;
    writeln!(
        text,
        "[mechanics]\nrpm = {{ value = {:.0}, source = \"fitted: by calibration, {:.1} to {:.1} with 95 %\" }}",
        rpm(turn.value),
        rpm(turn.high),
        rpm(turn.low)
    )?;
    writeln!(text, "heads = {{ value = {}, source = \"{USUAL}\" }}", names.heads)?;
    let zones = found.zones.len().clamp(1, 64);
    writeln!(
        text,
        "zones = {{ value = {zones}, source = \"fitted: by calibration, stretches of one rate; short ones may be missed\" }}"
    )?;
    writeln!(text, "outer_rate = {}", figure(&found.outer_rate, 1e-6, "MB/s"))?;
    writeln!(text, "inner_rate = {}", figure(&found.inner_rate, 1e-6, "MB/s"))?;
    writeln!(
        text,
        "head_switch = {}\n",
        figure(&found.seek_single_ns, 1e-6, "ms")
            .replace("fitted: by calibration,", "estimated: as a seek of one track;")
    )?;
    let seeks = [&found.seek_single_ns, &found.seek_average_ns, &found.seek_full_ns];
    let rows = ["single_track", "average", "full_stroke"];
    writeln!(text, "[mechanics.seek_read]")?;
    for (name, seek) in rows.iter().zip(seeks) {
        writeln!(text, "{name} = {}", figure(seek, 1e-6, "ms"))?;
    }
    writeln!(text, "\n[mechanics.seek_write]")?;
    for (name, seek) in rows.iter().zip(seeks) {
        let value = (seek.value + 4e5) / 1e6;
        writeln!(
            text,
            "{name} = {{ value = \"{value:.6} ms\", source = \"estimated: 0.4 ms more than to read, as data sheets have it; writes were not timed\" }}"
        )?;
    }
    buffer_and_firmware(text, found, age_weight)
}

fn buffer_and_firmware(
    text: &mut String,
    found: &RotationalFound,
    age_weight: Option<f64>,
) -> std::fmt::Result {
    let size = found.segment_bytes.max(SECTOR_BYTES) * u64::from(found.segments.max(1));
    writeln!(
        text,
        "\n[buffer]\nsize = {{ value = \"{} KiB\", source = \"fitted: by calibration, segments times their length\" }}",
        size.div_ceil(1024)
    )?;
    writeln!(
        text,
        "segments = {{ value = {}, source = \"fitted: by calibration, places kept\" }}",
        found.segments.max(1)
    )?;
    writeln!(text, "read_ahead = {}\nwrite_cache = false", found.reads_ahead)?;
    writeln!(text, "write_extents = {{ value = 64, source = \"{USUAL}\" }}\n")?;
    writeln!(text, "[firmware]\ncommand_overhead = {}", figure(&found.overhead_ns, 1e-3, "us"))?;
    writeln!(text, "command_work = {}", figure(&found.work_ns, 1e-3, "us"))?;
    writeln!(
        text,
        "queue_depth = {{ value = {}, source = \"fitted: by calibration, more in flight gained less than 2 %\" }}",
        found.queue_depth()
    )?;
    let tried = "fitted: by calibration, what does as many random reads with 8 to 128 in flight";
    let (weight, source) = age_weight.map_or((0.05, USUAL), |weight| (weight, tried));
    writeln!(text, "age_weight = {{ value = {weight}, source = \"{source}\" }}")?;
    let margin = MARGIN_NS / 1e3;
    writeln!(
        text,
        "positioning_margin = {{ value = \"{margin} us\", source = \"{USUAL}; seeks are without it\" }}"
    )
}

fn flash(text: &mut String, found: &FlashFound, names: &EntryNames) -> std::fmt::Result {
    head(text, "solid-state", found.capacity, "2.5 inch", names)?;
    interface(text, &found.link_rate, names)?;
    let channels = found.channels.max(1);
    writeln!(
        text,
        "[flash]\nchannels = {{ value = {channels}, source = \"fitted: by calibration, by conflicts\" }}"
    )?;
    writeln!(
        text,
        "dies_per_channel = {{ value = {}, source = \"fitted: by calibration, by conflicts, {} dies\" }}",
        (found.dies / channels).max(1),
        found.dies
    )?;
    writeln!(text, "page_size = {{ value = \"4 KiB\", source = \"{USUAL}\" }}")?;
    writeln!(text, "page_read = {}", figure(&found.page_read_ns, 1e-3, "us"))?;
    match &found.page_program_ns {
        Some(program) => writeln!(text, "page_program = {}", figure(program, 1e-3, "us"))?,
        None => writeln!(
            text,
            "page_program = {{ value = \"250 us\", source = \"{USUAL}: writes were not allowed\" }}"
        )?,
    }
    writeln!(text, "read_overhead = {}", figure(&found.overhead_ns, 1e-3, "us"))?;
    let write = figure(&found.overhead_ns, 1e-3, "us")
        .replace("fitted: by calibration,", "estimated: as that of a read,");
    writeln!(text, "write_overhead = {write}")?;
    writeln!(
        text,
        "write_amplification = {{ value = 1, source = \"fitted: by calibration, what it adds is in page_program\" }}"
    )?;
    writeln!(text, "block_pages = {{ value = 64, source = \"{USUAL}\" }}")?;
    writeln!(text, "queue_depth = {{ value = 64, source = \"{USUAL}\" }}\n")?;
    writeln!(text, "[flash.channel]\nrate = {}", figure(&found.channel_rate, 1e-6, "MB/s"))?;
    writeln!(text, "per_transfer = {}", figure(&found.channel_per_transfer_ns, 1e-3, "us"))
}
