//! Linux md as a careful admin sets it, and what its defaults would cost.
//!
//! ```text
//! defaults of the kernel ─► stripe_cache_size, group_thread_cnt ─► search ─► the first array
//!                                                                             │ each setting alone, none,
//!                                                                             │ a bitmap, PPL
//!                                                                             ▼
//!                                                         lines to write, cost of the defaults
//! ```
//! The search runs arrays of md with both settings, which cost memory and threads and lose nothing. What the first array does
//! without each of them tells which lines it takes. Settings that make arrays safer and slower are told with their cost. A setting
//! that the order's catalogue has at another value than the kernel stays as it is: somebody chose it.
//!
//! Left out, since no model knows them: the I/O scheduler and read-ahead of block devices, `stripe_size`, journal modes.

use super::judge::{Window, judge};
use super::{Bench, Crew, PlanError, Planned, Stage};
use raidlab_advisor::plan::{Geometry, Judged, Kept, Performance, Request};
use raidlab_hardware::{BitmapLocation, Catalog, ConsistencyPolicy, ControllerModel, MdModel, PAGE_BYTES};
use raidlab_units::ByteCount;
use serde::Serialize;

/// Defaults of the kernel (Documentation/admin-guide/md.rst).
const STRIPE_CACHE_DEFAULT: u32 = 256;
const GROUP_THREADS_DEFAULT: u32 = 0;

/// What is tried instead. Rows of 4 KiB pages for each member, 32 MiB; the most is four times that. Workers of one group, as many as
/// keep one drive of today busy each.
const STRIPE_CACHE: u32 = 8192;
const GROUP_THREADS: u32 = 8;

/// A setting matters where the array does this much more with it.
const MATTERS: f64 = 1.02;

/// Arrays of defaults that are run at most to find how many drives they need.
const LARGER_MAX: u32 = 6;

/// Chunks that are tried beside the one that arrays are made with.
pub(super) const CHUNKS_KIB: [u64; 3] = [64, 128, 1024];

/// Whether an array is md's, of a level with chunks.
pub(super) fn has_chunks(bench: &Bench<'_>, judged: &Judged) -> bool {
    bench.models(judged.geometry).controller.md.is_some() && judged.geometry.level.to_string() != "1"
}

/// How Linux md is to be set on an array.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MdAnswer {
    /// Commands and files to write, one a line.
    pub lines: Vec<String>,
    /// The same settings for `--set` of `simulate` and `study`, without the rate of rebuilds.
    pub set: Vec<String>,
    /// Memory that the stripe cache takes; none where there is none or it is as the kernel has it.
    pub memory: Option<ByteCount>,
    /// What the array does as the kernel has it; none where that is what the lines say.
    pub defaults: Option<MdDefaults>,
    /// Other settings, and how many times as much the array does with each.
    pub others: Vec<(String, f64)>,
}

/// How mdadm makes an array as it is simulated.
const NO_BITMAP: &str = "--bitmap=none";

/// An array gets an internal bitmap where it does at least this share with it: a crash is followed by a resync of minutes then, and not of
/// the whole array.
const BITMAP_CHEAP: f64 = 0.97;

/// An array with md as the kernel has it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MdDefaults {
    /// What each application gets.
    pub performance: Vec<Performance>,
    /// How many times as much the array does as the lines set it.
    pub gain: f64,
    /// Whether it keeps all needs.
    pub keeps_needs: bool,
    /// Members of the smallest array of these parts that keeps them, as far as larger ones were looked at.
    pub members: Option<u16>,
}

/// Whether md changes stripes of this level through its stripe cache.
fn has_stripes(judged: &Judged) -> bool {
    judged.geometry.level.to_string().starts_with(['3', '5', '6'])
}

/// `catalog` with both settings; none where it has no md, or each setting was chosen by somebody.
pub fn tuned(catalog: &Catalog) -> Option<Catalog> {
    let both = |md: &mut MdModel| {
        cache(md);
        threads(md);
    };
    let is_changed = |controller: &ControllerModel| {
        controller.md.as_ref().is_some_and(|md| {
            let mut set = md.clone();
            both(&mut set);
            set != *md
        })
    };
    catalog.controllers().any(is_changed).then(|| {
        let mut tuned = catalog.clone();
        tuned.set_md(both);
        tuned
    })
}

fn cache(md: &mut MdModel) {
    if md.stripe_cache_size == STRIPE_CACHE_DEFAULT {
        md.stripe_cache_size = STRIPE_CACHE;
    }
}

fn threads(md: &mut MdModel) {
    if md.group_thread_cnt == GROUP_THREADS_DEFAULT {
        md.group_thread_cnt = GROUP_THREADS;
    }
}

/// A way to set md that is run once more.
struct Variant {
    name: String,
    catalog: Catalog,
}

impl Variant {
    fn new(name: &str, of: &Catalog, set: impl Fn(&mut MdModel)) -> Self {
        let mut catalog = of.clone();
        catalog.set_md(set);
        Self { name: name.to_owned(), catalog }
    }
}

/// Runs each application on an array whose md is set as `catalog` has it.
fn judged_with(
    bench: &Bench<'_>,
    (catalog, window): (&Catalog, Window),
    judged: &Judged,
) -> Result<Judged, PlanError> {
    let order = bench.order.with_catalog(catalog);
    let bench = Bench { order: &order, parts: bench.parts, demands: bench.demands };
    judge(&bench, judged, window).map(|(judged, _)| judged)
}

/// How md is to be set on `best`, which `bench` has with both settings, where it is md; `delivered` has it as the kernel does, and
/// `rebuild` is what a rebuild walks over on each member, in bytes per second. Its arrays have the names from `md` and `first` on.
pub(super) fn answer(
    bench: &Bench<'_>,
    (delivered, rebuild, first): (&Catalog, Option<f64>, u16),
    best: &Judged,
    (request, kept): (&Request<'_>, &[Kept]),
    crew: &mut Crew<'_>,
) -> Result<Option<MdAnswer>, PlanError> {
    let controller = bench.models(best.geometry).controller;
    let Some(set) = &controller.md else { return Ok(None) };
    let chunk = best.settings.strip.unwrap_or(controller.strip_size);
    let mut variants = vec![Variant::new("", bench.order.catalog, |_| {})];
    if has_stripes(best) && delivered.controller(&controller.id)?.md.as_ref() != Some(set) {
        let as_delivered = |set: fn(&mut MdModel)| Variant::new("", delivered, set);
        variants.extend([as_delivered(|_| {}), as_delivered(cache), as_delivered(threads)]);
    }
    let safer = variants.len();
    variants.extend(safer_ones(bench, best, set));
    let stage = Stage { label: "setting md otherwise", from: 1.0, to: 1.0 };
    let job = |index: usize| judged_with(bench, (&variants[index].catalog, Window::Short), best);
    let results = crew.on_all(stage, variants.len(), job)?;
    let score = results[0].score.max(f64::MIN_POSITIVE);
    let (mut memory, mut defaults, mut named) = (None, None, Vec::new());
    if let [_, plain, cached, threaded] = &results[..safer]
        && plain.score * MATTERS < score
    {
        let (takes_cache, takes_threads) = takes(score, cached.score, threaded.score);
        if takes_cache {
            named.push(("stripe_cache_size", set.stripe_cache_size));
            let pages = u64::from(set.stripe_cache_size) * u64::from(best.geometry.members);
            memory = Some(ByteCount(pages * PAGE_BYTES));
        }
        if takes_threads {
            named.push(("group_thread_cnt", set.group_thread_cnt));
        }
        // What is told beside the array's own figures is run for as long as these were.
        let plain = judged_with(bench, (delivered, Window::Long), best)?;
        let keeps_needs = plain.keeps(&bench.order.needs);
        let members = if keeps_needs { None } else { larger(bench, delivered, best, (request, kept))? };
        let gain = gain(&best.performance, &plain.performance);
        defaults = Some(MdDefaults { performance: plain.performance, gain, keeps_needs, members });
    }
    let others = variants[safer..].iter().zip(&results[safer..]);
    let is_cheap = |one: &Judged| one.score >= BITMAP_CHEAP * score && one.keeps(&bench.order.needs);
    let is_taken =
        |(variant, one): &(&Variant, &Judged)| variant.name.starts_with("--bitmap") && is_cheap(one);
    let bitmap = others.clone().find(is_taken).map_or(NO_BITMAP, |(variant, _)| &variant.name);
    let mut lines = creation(&best.geometry, chunk, bitmap, first);
    let with_stripes = stripe_arrays(&best.geometry, first);
    let on_each = |name: &str, value: u64| {
        with_stripes.iter().map(|array| setting_line(array, name, value)).collect::<Vec<_>>()
    };
    lines.extend(named.iter().flat_map(|(name, value)| on_each(name, u64::from(*value))));
    if let Some(rate) = rebuild.filter(|rate| rate.is_finite()) {
        // The rate that a rebuild keeps beside a load; without one it goes up to the most.
        let kib = (rate / 1024.0) as u64;
        lines.extend(on_each("sync_speed_min", kib));
        if kib > set.sync_speed_max {
            lines.extend(on_each("sync_speed_max", kib));
        }
    }
    // None of them makes an array faster: what looks so is chance, or a load that was lowered in another step.
    let others = others.map(|(variant, one)| (variant.name.clone(), (one.score / score).min(1.0))).collect();
    let named = named.iter().map(|(name, value)| format!("{}:md.{name}={value}", controller.id)).collect();
    Ok(Some(MdAnswer { lines, set: named, memory, defaults, others }))
}

/// How many times as many requests `best` does as `plain`; of several applications the product, as they are ranked.
fn gain(best: &[Performance], plain: &[Performance]) -> f64 {
    best.iter().zip(plain).map(|(best, plain)| best.iops / plain.iops.max(f64::MIN_POSITIVE)).product()
}

/// The file to write for a setting of an array.
fn setting_line(array: &str, name: &str, value: u64) -> String {
    format!("echo {value} > /sys/block/{array}/md/{name}")
}

/// The arrays that have stripes and are rebuilt: where there are spans, each of them, below one of level 0.
fn stripe_arrays(geometry: &Geometry, first: u16) -> Vec<String> {
    let spans = spans(geometry).map_or(first..=first, |spans| first + 1..=first + spans);
    spans.map(|number| format!("md{number}")).collect()
}

/// How many arrays md makes of one.
pub(super) fn names(geometry: &Geometry) -> u16 {
    1 + spans(geometry).unwrap_or(0)
}

/// Spans of RAID 50 and 60.
fn spans(geometry: &Geometry) -> Option<u16> {
    let text = geometry.level.to_string();
    let (name, variant) = text.split_once(':')?;
    let spans = variant.strip_suffix("-spans")?.parse().ok()?;
    (matches!(name, "50" | "60") && spans > 0).then_some(spans)
}

/// The lines that writes of whole stripes to `one` take beside its own, with md as `tuned` has it: an array that was planned for reads
/// does without them.
pub fn lines_for_writes(tuned: &Catalog, one: &Planned) -> Vec<String> {
    let controller = tuned.controller(&one.parts.controller).ok();
    let Some(set) = controller.and_then(|it| it.md.as_ref()).filter(|_| has_stripes(&one.judged)) else {
        return Vec::new();
    };
    let all = [("stripe_cache_size", set.stripe_cache_size), ("group_thread_cnt", set.group_thread_cnt)];
    let told = |line: &String| one.md.as_ref().is_some_and(|md| md.lines.contains(line));
    let arrays = stripe_arrays(&one.judged.geometry, 0);
    let of_setting = |(name, value): &(&str, u32)| {
        let lines = arrays.iter().map(|array| setting_line(array, name, u64::from(*value)));
        lines.collect::<Vec<_>>()
    };
    all.iter().flat_map(of_setting).filter(|line| !told(line)).collect()
}

/// Whether it takes the larger stripe cache and the threads to do about `score`, by what the array does with each of them alone.
fn takes(score: f64, cached: f64, threaded: f64) -> (bool, bool) {
    let is_enough = |alone: f64| alone * MATTERS >= score;
    match (is_enough(cached), is_enough(threaded)) {
        (true, _) => (true, false),
        (false, true) => (false, true),
        (false, false) => (true, true),
    }
}

/// How mdadm makes it, with this option for its bitmap; spans are arrays of their own below one of level 0.
fn creation(geometry: &Geometry, chunk: ByteCount, bitmap: &str, first: u16) -> Vec<String> {
    let text = geometry.level.to_string();
    let (name, variant) = text.split_once(':').unwrap_or((&text, ""));
    let chunk = if name == "1" { String::new() } else { format!(" --chunk={}K", chunk.0 >> 10) };
    let create = |array: &str, level: &str, members: u16, of: &str| {
        // Else mdadm adds a bitmap where members are of 100 GB and more.
        let bitmap = if level == "0" { String::new() } else { format!(" {bitmap}") };
        format!("mdadm --create /dev/{array} --level={level} --raid-devices={members}{chunk}{bitmap} {of}")
    };
    let (whole, members) = (format!("md{first}"), geometry.members);
    match (name, variant, spans(geometry)) {
        (_, _, Some(spans)) => {
            let below = stripe_arrays(geometry, first);
            let all = below.iter().map(|array| create(array, &name[..1], members / spans, "DEVICES"));
            let arrays: Vec<String> = below.iter().map(|array| format!("/dev/{array}")).collect();
            all.chain([create(&whole, "0", spans, &arrays.join(" "))]).collect()
        }
        ("0" | "1" | "5" | "6" | "10", "", _) => vec![create(&whole, name, members, "DEVICES")],
        ("10", "far", _) => vec![create(&whole, "10 --layout=f2", members, "DEVICES")],
        ("10" | "1e", "offset", _) => vec![create(&whole, "10 --layout=o2", members, "DEVICES")],
        ("1e", "", _) => vec![create(&whole, "10 --layout=n2", members, "DEVICES")],
        _ => Vec::new(),
    }
}

/// Settings that make an array safer, or its resync shorter, and writes slower.
fn safer_ones(bench: &Bench<'_>, best: &Judged, set: &MdModel) -> Vec<Variant> {
    if set.bitmap() != BitmapLocation::None || set.consistency_policy != ConsistencyPolicy::Resync {
        return Vec::new();
    }
    let level = best.geometry.level.to_string();
    let catalog = bench.order.catalog;
    let bitmap = |chunk: ByteCount| {
        move |md: &mut MdModel| {
            (md.bitmap_location, md.bitmap_chunk) = (BitmapLocation::Internal, chunk);
        }
    };
    let mut all = Vec::new();
    if best.survives_always > 0 {
        for (chunk, name) in [(64, "64M"), (1024, "1G")] {
            let name = format!("--bitmap=internal --bitmap-chunk={name}");
            all.push(Variant::new(&name, catalog, bitmap(ByteCount::from_mib(chunk))));
        }
    }
    // raid5-ppl.c: of RAID 5 alone.
    if level == "5" {
        let ppl = |md: &mut MdModel| md.consistency_policy = ConsistencyPolicy::Ppl;
        all.push(Variant::new("--consistency-policy=ppl", catalog, ppl));
    }
    all
}

/// Members of the smallest larger array of the same parts that keeps the needs as the kernel has md; none where none does that there is
/// room for.
fn larger(
    bench: &Bench<'_>,
    delivered: &Catalog,
    best: &Judged,
    (request, kept): (&Request<'_>, &[Kept]),
) -> Result<Option<u16>, PlanError> {
    let own: &Geometry = &best.geometry;
    let mut like: Vec<&Kept> =
        kept.iter().filter(|it| it.geometry.is_like(own) && it.geometry.members > own.members).collect();
    like.sort_by_key(|it| it.geometry.members);
    let (mut from, mut to, mut found) = (0, like.len(), None);
    for _ in 0..LARGER_MAX {
        if from >= to {
            break;
        }
        // The largest first: often none is enough.
        let at = if found.is_none() { to - 1 } else { usize::midpoint(from, to) };
        let one = judged_with(bench, (delivered, Window::Short), &like[at].unjudged(request, best.settings))?;
        if one.keeps(&bench.order.needs) {
            (to, found) = (at, Some(like[at].geometry.members));
        } else if found.is_none() {
            return Ok(None);
        } else {
            from = at + 1;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_told() {
        assert_eq!(takes(100.0, 99.0, 50.0), (true, false), "the cache alone is enough");
        assert_eq!(takes(100.0, 60.0, 99.0), (false, true), "the threads alone are enough");
        assert_eq!(takes(100.0, 60.0, 50.0), (true, true), "it takes both");
        assert_eq!(takes(100.0, 99.0, 99.0), (true, false), "one of two that do is enough");
    }

    /// "250 requests/s, these lines make it 1.54 times as much" stood below 391: the times were of the bytes.
    #[test]
    fn a_gain_is_that_of_the_requests_which_are_told() {
        let of = |iops, bytes_per_sec| Performance { iops, bytes_per_sec, ..Performance::default() };
        let found = gain(&[of(391.0, 1.54e9)], &[of(250.0, 1e9)]);
        assert!((found - 391.0 / 250.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn what_somebody_set_stays() {
        let mut catalog = Catalog::builtin();
        let settings = |catalog: &Catalog| {
            let md = catalog.controller("linux-md-nvme").expect("it is there").md.clone().expect("it is md");
            (md.stripe_cache_size, md.group_thread_cnt)
        };
        assert_eq!(settings(&tuned(&catalog).expect("kernel defaults")), (STRIPE_CACHE, GROUP_THREADS));
        catalog.set_md(|md| md.stripe_cache_size = 512);
        assert_eq!(settings(&tuned(&catalog).expect("one default")), (512, GROUP_THREADS));
        catalog.set_md(|md| md.group_thread_cnt = 1);
        assert!(tuned(&catalog).is_none());
    }

    #[test]
    fn spans_are_arrays_below_one_of_level_0() {
        let made = |level: &str, members| {
            let level = level.parse().expect("a level");
            let geometry = Geometry { drive: 0, controller: 0, enclosure: None, level, members, spares: 0 };
            creation(&geometry, ByteCount::from_kib(512), NO_BITMAP, 0).join("; ")
        };
        assert_eq!(
            made("6", 8),
            "mdadm --create /dev/md0 --level=6 --raid-devices=8 --chunk=512K --bitmap=none DEVICES"
        );
        assert_eq!(made("1", 2), "mdadm --create /dev/md0 --level=1 --raid-devices=2 --bitmap=none DEVICES");
        assert_eq!(
            made("10:far", 4),
            "mdadm --create /dev/md0 --level=10 --layout=f2 --raid-devices=4 --chunk=512K --bitmap=none DEVICES"
        );
        assert_eq!(
            made("50:2-spans", 8),
            "mdadm --create /dev/md1 --level=5 --raid-devices=4 --chunk=512K --bitmap=none DEVICES; \
             mdadm --create /dev/md2 --level=5 --raid-devices=4 --chunk=512K --bitmap=none DEVICES; \
             mdadm --create /dev/md0 --level=0 --raid-devices=2 --chunk=512K /dev/md1 /dev/md2"
        );
    }

    /// They went to the array of level 0 above, which has none of the files.
    #[test]
    fn settings_of_spans_go_to_each_span() {
        let geometry = |level: &str| {
            let level = level.parse().expect("a level");
            Geometry { drive: 0, controller: 0, enclosure: None, level, members: 8, spares: 0 }
        };
        assert_eq!(stripe_arrays(&geometry("60:2-spans"), 0), ["md1", "md2"]);
        assert_eq!(stripe_arrays(&geometry("6"), 0), ["md0"]);
        assert_eq!(stripe_arrays(&geometry("10:far"), 0), ["md0"]);
    }

    #[test]
    fn arrays_of_one_host_have_names_of_their_own() {
        let level = "50:2-spans".parse().expect("a level");
        let geometry = Geometry { drive: 0, controller: 0, enclosure: None, level, members: 8, spares: 0 };
        assert_eq!(names(&geometry), 3);
        let lines = creation(&geometry, ByteCount::from_kib(512), NO_BITMAP, 3);
        assert_eq!(
            lines[2],
            "mdadm --create /dev/md3 --level=0 --raid-devices=2 --chunk=512K /dev/md4 /dev/md5"
        );
        assert_eq!(
            setting_line(&stripe_arrays(&geometry, 3)[0], "group_thread_cnt", 8),
            "echo 8 > /sys/block/md4/md/group_thread_cnt"
        );
    }
}
