//! From the file's text to a [`Study`]: names looked up, defaults filled in, everything checked.

use super::file::{ArrayFile, LoadFile, MeasureFile, OneOrMore, SimulateFile, StudyFile, SweepFile};
use super::{ArraySection, MeasureSection, SimulateSection, Study, StudyFileError};
use raidlab_controller::{ArrayConfig, Resilience, WritePolicy};
use raidlab_hardware::{Catalog, CatalogError, DriveCondition, DriveHistory, DriveModel};
use raidlab_measure::array::{ArrayThreads, SoftwareArray};
use raidlab_papers::Paper;
use raidlab_raid::{LevelVariant, ParseLevelError};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{Workload, World};
use raidlab_worlds::ControllersError;
use raidlab_worlds::condition_of;
use raidlab_worlds::sweep::{self, SweepError};
use raidlab_worlds::{LoadPlan, check_iodepths, find_workload, varied};
use raidlab_worlds::{ModelledArray, ModelledSettings, Models, Parts, UnknownParts, member_cache};
use raidlab_worlds::{SOFTWARE_CACHE, STAGING_SIZE};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// Version of the form of study files.
const SCHEMA: u32 = 1;

/// Rounds of a study at most.
const REPEATS_MAX: u32 = 100;

/// Virtual time before a window at least, where nobody says.
const SIMULATED_RAMP: NanoSpan = NanoSpan::from_secs(10);
/// The same on real storage, where the window is not shorter.
const REAL_RAMP: NanoSpan = NanoSpan::from_secs(1);

/// Reads `text`, the contents of `file`.
pub(super) fn resolve(file: &str, text: &str, catalog: &Catalog) -> Result<Study, StudyFileError> {
    let parsed: StudyFile = raidlab_workload::toml_file::parse(file, text, SCHEMA)?;
    let place = Place { file, text };
    let common = &parsed.load;
    if let Some(paper) = &parsed.compare_paper
        && let Err(error) = Paper::builtin(paper.get_ref())
    {
        return Err(place.value(paper.span(), "compare-paper", format!("names no paper: {error}")));
    }
    let repeats = parsed.repeats.as_ref().map_or(1, |repeats| *repeats.get_ref());
    if let Some(given) = &parsed.repeats
        && !(1..=REPEATS_MAX).contains(&repeats)
    {
        return Err(place.value(given.span(), "repeats", format!("must be from 1 to {REPEATS_MAX}")));
    }
    let study = Study {
        measures: each(&parsed.measure, |section| measure(place, section, common))?,
        arrays: each(&parsed.array, |section| array(place, section, common))?,
        simulations: each(&parsed.simulate, |section| simulate(place, section, common, catalog))?.concat(),
        title: parsed.title,
        question: parsed.question,
        seed: parsed.seed,
        repeats,
        compare_paper: parsed.compare_paper.map(Spanned::into_inner),
    };
    if study.run_count() == 0 {
        let problem = "are all missing or empty: a study needs at least one run".into();
        return Err(place.value(0..0, "[[measure]], [[array]] and [[simulate]]", problem));
    }
    check_common_iodepths(place, common, &study)?;
    Ok(study)
}

/// Refuses numbers in flight for all sections that change none of them.
fn check_common_iodepths(place: Place<'_>, common: &LoadFile, study: &Study) -> Result<(), StudyFileError> {
    let Some(iodepths) = &common.iodepths else { return Ok(()) };
    let loads = study.measures.iter().map(|section| &section.load);
    let loads = loads.chain(study.arrays.iter().map(|section| &section.load));
    let loads = loads.chain(study.simulations.iter().map(|section| &section.load));
    check_iodepths(loads.flat_map(|load| &load.workloads))
        .map_err(|error| place.value(iodepths.span(), "iodepths", format!("cannot be used: {error}")))
}

fn each<T, R>(items: &[T], make: impl Fn(&T) -> Result<R, StudyFileError>) -> Result<Vec<R>, StudyFileError> {
    items.iter().map(make).collect()
}

fn measure(
    place: Place<'_>,
    section: &Spanned<MeasureFile>,
    common: &LoadFile,
) -> Result<MeasureSection, StudyFileError> {
    let given = section.get_ref();
    let load = load_plan(place, section.span(), (&given.load, common), World::Measured)?;
    let size = *given.size.get_ref();
    load.check_region(size).map_err(|problem| place.value(given.size.span(), "size", problem))?;
    let (path, direct) = (given.path.clone(), given.direct);
    Ok(MeasureSection { path, size, is_there: false, destroy_data: Vec::new(), direct, load })
}

fn array(
    place: Place<'_>,
    section: &Spanned<ArrayFile>,
    common: &LoadFile,
) -> Result<ArraySection, StudyFileError> {
    let given = section.get_ref();
    let load = load_plan(place, section.span(), (&given.load, common), World::Array)?;
    let load = single_worker(place, section.span(), load)?;
    let threads = ArrayThreads {
        io: thread_count(place, given.io_threads.as_ref(), "io-threads")?,
        parity: thread_count(place, given.parity_threads.as_ref(), "parity-threads")?,
    };
    let mut arrays = Vec::new();
    for (level, policy) in variants(&given.levels, &given.write_policies) {
        let config = ArrayConfig {
            level: place.level(level, given.members)?,
            members: given.members,
            strip_size: given.strip_size,
            block_size: given.block_size,
            member_size: given.member_size,
            member_cache: member_cache(given.disk_cache),
            cache: given.cache.over(SOFTWARE_CACHE, policy),
            staging_size: STAGING_SIZE,
            resilience: Resilience::default(),
        };
        let impossible = |reason| place.impossible(level, given.members, reason);
        let array = SoftwareArray::new(config).map_err(|error| impossible(error.to_string()))?;
        let region = given.region.as_ref().map_or(array.usable, |region| *region.get_ref());
        let region_span = given.region.as_ref().map_or(level.span(), Spanned::span);
        check_region(&load, region, array.usable)
            .map_err(|problem| place.value(region_span, "region", problem))?;
        arrays.push(SoftwareArray { threads, ..array });
    }
    let region = given.region.as_ref().map(|region| *region.get_ref());
    Ok(ArraySection { directories: vec![given.directory.clone()], arrays, region, load })
}

fn thread_count(
    place: Place<'_>,
    given: Option<&Spanned<i64>>,
    key: &'static str,
) -> Result<u8, StudyFileError> {
    let Some(given) = given else { return Ok(0) };
    let (count, most) = (*given.get_ref(), ArrayThreads::MAX);
    let count_or_wrong = u8::try_from(count).ok().filter(|count| *count <= most);
    count_or_wrong.ok_or_else(|| {
        place.value(given.span(), key, format!("is {count}: take 0, for none, to {most}, which are the most"))
    })
}

/// A section for each drive of one of the file, since each may be in a condition of its own.
fn simulate(
    place: Place<'_>,
    section: &Spanned<SimulateFile>,
    common: &LoadFile,
    catalog: &Catalog,
) -> Result<Vec<SimulateSection>, StudyFileError> {
    let given = section.get_ref();
    let load = load_plan(place, section.span(), (&given.load, common), World::Simulated)?;
    let load = single_worker(place, section.span(), load)?;
    let drives = place.some(&given.drive, "drive")?;
    drives.iter().map(|drive| simulate_drive(place, given, (drive, &load), catalog)).collect()
}

fn simulate_drive(
    place: Place<'_>,
    given: &SimulateFile,
    (drive, load): (&str, &LoadPlan),
    catalog: &Catalog,
) -> Result<SimulateSection, StudyFileError> {
    let parts = Parts {
        controller: given.controller.get_ref().clone(),
        enclosure: given.enclosure.as_ref().map(|name| name.get_ref().clone()),
        drive: drive.to_owned(),
    };
    let models = parts.look_up(catalog).map_err(|unknown| unknown_parts(place, given, unknown))?;
    models.check_fit().map_err(|problem| place.value(given.drive.span(), "drive", problem))?;
    let condition = condition(place, given, models.drive)?;
    let strips = match &given.strip_size {
        Some(strips) => place.some(strips, "strip-size")?.iter().copied().map(Some).collect(),
        None => vec![None],
    };
    let mut arrays = Vec::new();
    for &members in place.some(&given.members, "members")? {
        for &strip_size in &strips {
            for (level, write_policy) in variants(&given.levels, &given.write_policies) {
                let settings = ModelledSettings {
                    level: place.level(level, members)?,
                    members,
                    write_policy,
                    strip_size,
                    disk_cache: given.disk_cache,
                    cache: given.cache,
                    resilience: Resilience::default(),
                };
                arrays.push(modelled(place, given, (&models, level, &settings), load)?);
            }
        }
    }
    Ok(SimulateSection { arrays, load: load.clone(), condition })
}

fn modelled(
    place: Place<'_>,
    given: &SimulateFile,
    (models, level, settings): (&Models<'_>, &Spanned<String>, &ModelledSettings),
    load: &LoadPlan,
) -> Result<ModelledArray, StudyFileError> {
    let mut array = ModelledArray::new(models, settings)
        .map_err(|error| place.impossible(level, settings.members, error.to_string()))?;
    if let Some(controllers) = &given.controllers {
        let wrong =
            |error: ControllersError| place.value(controllers.span(), "controllers:", error.to_string());
        array = array.with_controllers(models, controllers.get_ref()).map_err(wrong)?;
    }
    let volumes = u32::from(array.volume_count());
    let fit = load.workloads.iter().try_for_each(|workload| workload.spec.check_targets(volumes));
    fit.map_err(|error| place.value(level.span(), "workloads", format!("cannot be used: {error}")))?;
    let (usable, region) = (array.usable, given.region.as_ref());
    let wanted = region.map_or(usable, |region| *region.get_ref());
    let span = region.map_or(level.span(), Spanned::span);
    check_region(load, wanted, usable).map_err(|problem| place.value(span.clone(), "region", problem))?;
    array.with_region(wanted).map_err(|error| place.value(span, "region", error.to_string()))
}

/// What was done to the drives before, if the section says so and they have a condition.
fn condition(
    place: Place<'_>,
    given: &SimulateFile,
    drive: &DriveModel,
) -> Result<Option<DriveCondition>, StudyFileError> {
    let history =
        match &given.condition {
            None => None,
            Some(text) => {
                let history = text.get_ref().parse::<DriveHistory>();
                Some(history.map_err(|known| {
                    place.value(text.span(), "condition", format!("is not known: {known}"))
                })?)
            }
        };
    let fill = given.fill.as_ref().map(|fill| *fill.get_ref());
    let span = given.condition.as_ref().map(Spanned::span).or(given.fill.as_ref().map(Spanned::span));
    let Some(span) = span else { return Ok(None) };
    let wrong = |problem: String| place.value(span.clone(), "condition", format!("can't be: {problem}"));
    let condition = condition_of(history, fill).map_err(|error| wrong(error.to_string()))?;
    drive.clone().in_condition(condition).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(condition))
}

fn check_region(load: &LoadPlan, region: ByteCount, usable: ByteCount) -> Result<(), String> {
    if region > usable {
        return Err(format!("is {region}, but the array holds only {usable}: make it smaller"));
    }
    load.check_region(region)
}

/// Every level with every write policy.
fn variants<'a>(
    levels: &'a [Spanned<String>],
    policies: &'a [WritePolicy],
) -> impl Iterator<Item = (&'a Spanned<String>, WritePolicy)> {
    levels.iter().flat_map(move |level| policies.iter().map(move |policy| (level, *policy)))
}

fn unknown_parts(place: Place<'_>, given: &SimulateFile, unknown: UnknownParts) -> StudyFileError {
    let enclosure = || given.enclosure.as_ref().map_or(given.controller.span(), Spanned::span);
    let line_of = |part: &CatalogError| {
        place.line(match part {
            CatalogError::UnknownId { what: "drive", .. } => given.drive.span(),
            CatalogError::UnknownId { what: "enclosure", .. } => enclosure(),
            _ => given.controller.span(),
        })
    };
    let parts = unknown.0.into_iter().map(|part| (line_of(&part), part)).collect();
    StudyFileError::UnknownParts { file: place.file.to_owned(), parts }
}

/// Refuses workloads for several targets where there is one: arrays of a simulation have volumes, each of which is a target.
fn check_one_target(
    place: Place<'_>,
    world: World,
    (names, workloads): (&[Spanned<String>], &[Workload]),
) -> Result<(), StudyFileError> {
    if world == World::Simulated {
        return Ok(());
    }
    names.iter().zip(workloads).try_for_each(|(name, workload)| {
        let fits = workload.spec.check_targets(1);
        fits.map_err(|error| place.value(name.span(), "workloads", format!("cannot be used: {error}")))
    })
}

/// The load of a section: its own settings, else the common ones.
fn load_plan(
    place: Place<'_>,
    section: Range<usize>,
    (own, common): (&LoadFile, &LoadFile),
    world: World,
) -> Result<LoadPlan, StudyFileError> {
    let missing = |key| {
        let problem =
            "is missing: write it in [load], for all sections, or in this section's own load".into();
        place.value(section.clone(), key, problem)
    };
    let workloads =
        own.workloads.as_ref().or(common.workloads.as_ref()).ok_or_else(|| missing("workloads"))?;
    let plain = each(workloads, |name| workload(place, name))?;
    check_one_target(place, world, (workloads, &plain))?;
    let are_own = check_iodepths(&plain);
    if let (Some(iodepths), Err(error)) = (&own.iodepths, &are_own) {
        return Err(place.value(iodepths.span(), "iodepths", format!("cannot be used: {error}")));
    }
    let iodepths = own.iodepths.as_ref().or(common.iodepths.as_ref());
    let iodepths = match iodepths {
        None if are_own.is_err() => &Spanned::new(0..0, SweepFile::List(vec![1])),
        iodepths => iodepths.ok_or_else(|| missing("iodepths"))?,
    };
    let run = own.run.as_ref().or(common.run.as_ref()).ok_or_else(|| missing("run"))?;
    if *run.get_ref() == NanoSpan::ZERO {
        return Err(place.value(run.span(), "run", "is no time: write at least 1ms".into()));
    }
    let depths = place.sweep(iodepths, "iodepths", sweep::iodepths, |depth| Some(*depth))?;
    if depths.contains(&0) {
        return Err(place.value(iodepths.span(), "iodepths", "has 0: a run needs at least 1".into()));
    }
    let sizes = own.block_sizes.as_ref().or(common.block_sizes.as_ref());
    let bytes = |size: &ByteCount| u32::try_from(size.get()).ok().filter(|bytes| *bytes > 0);
    let block_sizes = match sizes {
        Some(sizes) => place.sweep(sizes, "block-sizes", sweep::block_sizes, bytes)?,
        None => Vec::new(),
    };
    let shares = own.read_pcts.as_ref().or(common.read_pcts.as_ref());
    let read_pcts = match shares {
        Some(shares) => {
            place.sweep(shares, "read-pcts", sweep::read_pcts, |pct| (*pct <= 100).then_some(*pct))?
        }
        None => Vec::new(),
    };
    let workers = match own.workers.as_ref().or(common.workers.as_ref()) {
        Some(workers) => {
            let in_range = |count: &u32| (1..=1024).contains(count).then_some(*count);
            place.sweep(workers, "workers", sweep::workers, in_range)?
        }
        None => vec![1],
    };
    let unused = |span: Option<Range<usize>>, key| {
        let span = span.unwrap_or(section.clone());
        move |error| place.value(span, key, format!("cannot be used: {error}"))
    };
    let sized = varied(&plain, &block_sizes, &[]).map_err(unused(sizes.map(Spanned::span), "block-sizes"))?;
    let workloads =
        varied(&sized, &[], &read_pcts).map_err(unused(shares.map(Spanned::span), "read-pcts"))?;
    let run = *run.get_ref();
    let given = own.ramp.or(common.ramp);
    let least = match world {
        World::Simulated => SIMULATED_RAMP,
        World::Measured | World::Array => REAL_RAMP.min(run),
    };
    let (ramp, settles) = (given.unwrap_or(least), given.is_none() && world != World::Measured);
    Ok(LoadPlan { workloads, iodepths: depths, workers, ramp, run, settles, may_lengthen: false })
}

/// `load`, which must be of one worker: arrays of raidlab are driven by one.
fn single_worker(
    place: Place<'_>,
    section: Range<usize>,
    load: LoadPlan,
) -> Result<LoadPlan, StudyFileError> {
    if load.workers == [1] {
        return Ok(load);
    }
    let problem = "is for [[measure]] only: write it in that section's own load".into();
    Err(place.value(section, "workers", problem))
}

/// A built-in workload, or a file whose path is seen from the folder of the study.
fn workload(place: Place<'_>, name: &Spanned<String>) -> Result<Workload, StudyFileError> {
    let folder = Path::new(place.file).parent().unwrap_or(Path::new(""));
    find_workload(name.get_ref(), folder).map_err(|workload| {
        let (file, line) = (place.file.to_owned(), place.line(name.span()));
        StudyFileError::Workload { file, line, workload: Box::new(workload) }
    })
}

/// The file being read, for messages.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a str,
    text: &'a str,
}

impl Place<'_> {
    /// The line, from 1, on which `span` starts.
    fn line(self, span: Range<usize>) -> usize {
        self.text[..span.start].matches('\n').count() + 1
    }

    fn value(self, span: Range<usize>, key: &'static str, problem: String) -> StudyFileError {
        StudyFileError::Value { file: self.file.to_owned(), line: self.line(span), key, problem }
    }

    /// What is to be tried, which must be something.
    fn some<'a, T>(
        self,
        given: &'a Spanned<OneOrMore<T>>,
        key: &'static str,
    ) -> Result<&'a [T], StudyFileError> {
        let values = given.get_ref().as_slice();
        if values.is_empty() {
            return Err(self.value(given.span(), key, "is an empty list: name at least one".into()));
        }
        Ok(values)
    }

    /// The values of a sweep: each of a list as `check` takes it, or what `read` makes of a text.
    fn sweep<T, V>(
        self,
        given: &Spanned<SweepFile<T>>,
        key: &'static str,
        read: impl Fn(&str) -> Result<Vec<V>, SweepError>,
        check: impl Fn(&T) -> Option<V>,
    ) -> Result<Vec<V>, StudyFileError> {
        match given.get_ref() {
            SweepFile::Text(text) => {
                read(text).map_err(|error| self.value(given.span(), key, format!("cannot be read: {error}")))
            }
            SweepFile::List(list) => {
                let values: Option<Vec<V>> = list.iter().map(check).collect();
                let out_of_range = || self.value(given.span(), key, "has a value out of range".into());
                values.ok_or_else(out_of_range)
            }
        }
    }

    fn level(self, level: &Spanned<String>, members: u16) -> Result<LevelVariant, StudyFileError> {
        level
            .get_ref()
            .parse()
            .map_err(|error: ParseLevelError| self.impossible(level, members, error.to_string()))
    }

    fn impossible(self, level: &Spanned<String>, members: u16, reason: String) -> StudyFileError {
        StudyFileError::ImpossibleArray {
            file: self.file.to_owned(),
            line: self.line(level.span()),
            level: level.get_ref().clone(),
            members,
            reason,
        }
    }
}
