//! Needs of the array, and of single applications: `2000`, or `NAME:2000`.

use super::{Args, Asked, history};
use crate::failure::Failure;
use crate::inputs::{above_zero, some_bytes};
use crate::verbs::loads::CHECKPOINT_EVERY;
use raidlab::nearest;
use raidlab_advisor::plan::{Goal, Growth, Needs, OwnNeeds};
use raidlab_advisor::risk::SECS_PER_DAY;
use raidlab_advisor::{Bound, BoundError};
use raidlab_planning::{Application, WARRANTY_YEARS};
use raidlab_units::ByteCount;

/// A need of all applications, or of those with a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Need<T> {
    of: Option<String>,
    value: T,
}

fn need<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Need<T>, String> {
    let (of, value) = text.rsplit_once(':').map_or((None, text), |(of, value)| (Some(of.to_owned()), value));
    Ok(Need { of, value: read(value.trim())? })
}

/// Reads a capacity.
pub(super) fn capacity(text: &str) -> Result<Need<ByteCount>, String> {
    need(text, some_bytes)
}

/// Reads a rate.
pub(super) fn rate(text: &str) -> Result<Need<f64>, String> {
    need(text, above_zero)
}

/// Reads a bound that fewer requests in flight can help to keep.
pub(super) fn latency(text: &str) -> Result<Need<Bound>, String> {
    need(text, |text| {
        let bound: Bound = text.parse().map_err(|error: BoundError| error.to_string())?;
        if !bound.limits_latency() {
            Err("plan takes bounds on latency from above, such as p99<=5ms; throughput is --iops or --mib-per-sec".into())
        } else if bound.value() > 0.0 {
            Ok(bound)
        } else {
            Err("no request takes no time: write a bound such as p99<=5ms".into())
        }
    })
}

/// Hands each of `list` to what all applications need, or to that of the ones it names.
fn share<T: Clone>(
    list: &[Need<T>],
    option: &'static str,
    applications: &[Application],
    mut take: impl FnMut(Option<usize>, T),
) -> Result<(), Failure> {
    for (index, Need { of, value }) in list.iter().enumerate() {
        // Bounds are of different percentiles; of all else the last would win without a word.
        if option != "--bound" && list[..index].iter().any(|other| other.of == *of) {
            let of = of.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
            return Err(Failure::input(anyhow::anyhow!("{option}{of} is given twice: leave one out")));
        }
        let Some(name) = of else {
            take(None, value.clone());
            continue;
        };
        let of_name = |app: &usize| {
            let full = applications[*app].workload.name();
            full == name || full.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('-'))
        };
        let apps: Vec<usize> = (0..applications.len()).filter(of_name).collect();
        if apps.is_empty() {
            let names: Vec<&str> = applications.iter().map(|app| app.workload.name()).collect();
            let meant = nearest(name, names.iter().copied());
            let meant = meant.map(|name| format!(", did you mean '{name}'?"));
            let known = meant.unwrap_or_else(|| format!("; there are: {}", names.join(", ")));
            return Err(Failure::input(anyhow::anyhow!(
                "{option} {name}: there is no application '{name}' in this plan{known}"
            )));
        }
        for app in apps {
            take(Some(app), value.clone());
        }
    }
    Ok(())
}

/// The needs.
pub(super) fn needs(args: &Args, asked: &Asked) -> Result<Needs, Failure> {
    let mut own = vec![OwnNeeds::default(); asked.applications.len()];
    for (app, past) in &asked.past {
        past.need(args.years, &mut own[*app]);
    }
    let growth =
        args.growth.map(|pct_per_year| Growth { pct_per_year, years: args.years.unwrap_or(WARRANTY_YEARS) });
    let mut whole = None;
    share(&args.usable, "--usable", &asked.applications, |app, size| match app {
        Some(app) => own[app].usable = Some(grown(size, growth)),
        None => whole = Some(grown(size, growth)),
    })?;
    let with_parts = own.iter().filter(|own| own.usable.is_some()).count();
    let usable = match (whole, with_parts) {
        (Some(whole), 0) => whole,
        (None, parts) if parts == own.len() && args.is_together(asked) => {
            own.iter().filter_map(|own| own.usable).fold(ByteCount::ZERO, |sum, size| sum + size)
        }
        _ => {
            return Err(Failure::input(anyhow::anyhow!(
                "--usable is one size for all applications, or with --together one for each of them, as NAME:SIZE"
            )));
        }
    };
    let (mut iops, mut mean_iops, mut bytes_per_sec, mut latency) = (None, None, None, Vec::new());
    share(&args.iops, "--iops", &asked.applications, |app, rate| match app {
        Some(app) => own[app].iops = Some(rate),
        None => iops = Some(rate),
    })?;
    share(&args.mean_iops, "--mean-iops", &asked.applications, |app, rate| match app {
        Some(app) => own[app].mean_iops = Some(rate),
        None => mean_iops = Some(rate),
    })?;
    share(&args.mib_per_sec, "--mib-per-sec", &asked.applications, |app, rate| match app {
        Some(app) => own[app].bytes_per_sec = Some(rate * 1_048_576.0),
        None => bytes_per_sec = Some(rate * 1_048_576.0),
    })?;
    latency.extend(args.mean_response.map(Bound::on_mean));
    share(&args.bound, "--bound", &asked.applications, |app, bound| match app {
        Some(app) => own[app].latency.push(bound),
        None => latency.push(bound),
    })?;
    (iops, bytes_per_sec) = with_stated(asked, !args.mib_per_sec.is_empty(), (iops, bytes_per_sec), &mut own);
    let has_own = own.iter().any(|own| *own != OwnNeeds::default());
    Ok(Needs {
        usable,
        growth,
        survive: args.survive,
        iops,
        bytes_per_sec,
        latency,
        own: if has_own { own } else { Vec::new() },
        budget: args.budget,
        power_watts: args.power,
        slots: args.slots,
        mean_iops,
        written_per_day: written_per_day(args, asked),
        written_in_sequence: args.checkpoint.is_some(),
        years: args.years,
        keep_degraded: args.keep_degraded.map(|pct| pct / 100.0),
        rack_units: args.rack_units,
        loss_per_year: Some(args.loss_per_year / 100.0),
        goal: args.goal.or((!args.bounds_parts()).then_some(Goal::Cheapest)),
    })
}

/// What the host writes in a day, if anything says so.
fn written_per_day(args: &Args, asked: &Asked) -> Option<f64> {
    let checkpoints =
        args.checkpoint.map(|bytes| bytes.0 as f64 * SECS_PER_DAY / CHECKPOINT_EVERY.as_secs_f64());
    let stated = args.written_per_day.map(|size| size.0 as f64);
    stated.or_else(|| history::written_per_day(asked, args.years)).or(checkpoints)
}

/// The rates that all applications need, and in `own` those of one: what an application needs by itself counts where no option says
/// otherwise. That of the only one is the need of all.
fn with_stated(
    asked: &Asked,
    has_bytes: bool,
    (mut iops, mut bytes_per_sec): (Option<f64>, Option<f64>),
    own: &mut [OwnNeeds],
) -> (Option<f64>, Option<f64>) {
    for (app, stated) in &asked.stated {
        let of_one = &mut own[*app];
        let rate = stated.iops.filter(|_| !has_bytes && of_one.iops.is_none());
        let bytes = stated.bytes_per_sec.filter(|_| of_one.bytes_per_sec.is_none());
        if asked.applications.len() == 1 {
            iops = iops.or(rate);
            bytes_per_sec = bytes_per_sec.or(bytes);
        } else {
            of_one.iops = of_one.iops.or_else(|| rate.filter(|_| iops.is_none()));
            of_one.bytes_per_sec = of_one.bytes_per_sec.or_else(|| bytes.filter(|_| bytes_per_sec.is_none()));
        }
    }
    (iops, bytes_per_sec)
}

/// What `usable` becomes.
fn grown(usable: ByteCount, growth: Option<Growth>) -> ByteCount {
    growth.map_or(usable, |growth| ByteCount((usable.0 as f64 * growth.times()).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_of_all_or_of_one() {
        let rows =
            [("2000", Ok((None, 2000.0))), ("oltp:2e3", Ok((Some("oltp"), 2000.0))), ("oltp:", Err(()))];
        for (text, told) in rows {
            let found = rate(text).map(|need| (need.of, need.value)).map_err(drop);
            assert_eq!(found, told.map(|(of, value)| (of.map(str::to_owned), value)), "{text}");
        }
        let bound = latency("md1200-oltp:p95<=2ms").expect("a bound of one application");
        assert_eq!((bound.of.as_deref(), bound.value.text()), (Some("md1200-oltp"), "p95<=2ms"));
        assert!(latency("iops>=5").is_err() && capacity("oltp:0B").is_err());
        assert!(latency("p99<=0ms").is_err(), "it was looked for until the search ended");
    }

    #[derive(clap::Parser)]
    struct Plan {
        #[command(flatten)]
        args: Args,
    }

    fn needs_of(line: &str) -> Needs {
        let Plan { args } = clap::Parser::parse_from(line.split_whitespace());
        needs(&args, &args.app.read().expect("they are built in")).expect("they are needs")
    }

    /// It was dropped beside other applications, so that the cheapest array was the best.
    #[test]
    fn what_an_application_needs_by_itself_counts_beside_others() {
        let alone = needs_of("plan --accelerators h100:8 --usable 1TB");
        let needed = alone.bytes_per_sec.unwrap();
        assert!(needed > 22e9 && alone.own.is_empty(), "{alone:?}");
        let beside = needs_of("plan --accelerators h100:8 --app md1200-oltp --usable 1TB");
        let own: Vec<_> = beside.own.iter().map(|own| own.bytes_per_sec).collect();
        assert_eq!((beside.bytes_per_sec, own), (None, vec![None, Some(needed)]));
        let said = needs_of("plan --accelerators h100:8 --app md1200-oltp --usable 1TB --mib-per-sec 100");
        assert_eq!(
            (said.bytes_per_sec_of(0), said.bytes_per_sec_of(1)),
            (Some(104_857_600.0), Some(104_857_600.0))
        );
    }

    /// The parts of the applications stayed as they are today beside a sum that had grown.
    #[test]
    fn what_each_application_needs_grows_too() {
        let text = "plan --app md1200-oltp,md1200-sql-log --together --usable md1200-oltp:1TB --usable md1200-sql-log:500GB \
                    --growth 100% --years 2";
        let found = needs_of(text);
        let own: Vec<u64> =
            found.own.iter().filter_map(|own| own.usable).map(|size| size.0 / 1_000_000_000).collect();
        assert_eq!((&own[..], found.usable.0 / 1_000_000_000), (&[4_000, 2_000][..], 6_000));
    }

    #[test]
    fn a_slip_in_the_name_of_an_application_is_told() {
        let workload =
            raidlab_worlds::find_workload("md1200-oltp", std::path::Path::new("")).expect("it is built in");
        let apps = [Application::new(workload, 1)];
        let refused = |name: &str| {
            let needs = [Need { of: Some(name.to_owned()), value: 1.0 }];
            share(&needs, "--iops", &apps, |_, _| ()).expect_err("there is none").lines()[0].1.clone()
        };
        assert!(refused("md1200-olpt").contains("did you mean 'md1200-oltp'?"), "{}", refused("md1200-olpt"));
        assert!(refused("backup").contains("there are: md1200-oltp"), "{}", refused("backup"));
    }

    #[test]
    fn data_grow_over_the_years() {
        let of = |growth: Option<f64>, years: Option<f64>| {
            let growth = growth.map(|pct| format!(" --growth {pct}")).unwrap_or_default();
            let years = years.map(|years| format!(" --years {years}")).unwrap_or_default();
            needs_of(&format!("plan --app md1200-oltp --usable 1TB{growth}{years}")).usable.0 / 1_000_000_000
        };
        assert_eq!(of(None, Some(5.0)), 1_000);
        assert_eq!(of(Some(20.0), Some(5.0)), 2_488);
        assert_eq!(of(Some(20.0), None), 2_488, "five years where nobody says");
        assert_eq!(of(Some(100.0), Some(2.0)), 4_000);
    }
}
