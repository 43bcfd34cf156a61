//! The two methods against each other and against closed formulas that are exact or close; the rules against the
//! layouts.

use super::*;
use proptest::prelude::*;
use raidlab_raid::{LayoutSpec, build_layout};
use raidlab_units::{BlockCount, MemberIndex};

fn spec(level: &str, members: u16) -> RiskSpec {
    RiskSpec {
        level: level.parse().unwrap(),
        members,
        annual_failure_share: 0.01,
        bits_per_read_error: Some(1e15),
        latent_errors_per_year: LATENT_ERRORS_PER_YEAR.value,
        blocks_per_latent_error: 1.0,
        capacity: ByteCount(2_000_000_000_000),
        rebuild_hours: 12.0,
        spares: 1,
        replace_hours: 24.0,
        check_days: Some(7.0),
        followed_share: 0.0,
        follow_days: FOLLOW_DAYS,
    }
}

/// Levels of every kind, with the members that each has.
const ARRAYS: [(&str, u16); 12] = [
    ("0", 3),
    ("1", 2),
    ("1", 3),
    ("5", 6),
    ("6", 8),
    ("10", 6),
    ("1e", 5),
    ("50:2-spans", 6),
    ("60:2-spans", 8),
    ("10:offset", 6),
    ("10:far", 6),
    ("3", 4),
];

#[test]
fn the_rules_say_what_the_layouts_say() {
    for (level, members) in ARRAYS {
        let level: LevelVariant = level.parse().unwrap();
        let layout = build_layout(&LayoutSpec {
            level,
            members,
            strip_blocks: BlockCount(4),
            member_blocks: BlockCount(4 * 64),
        })
        .unwrap();
        let rules = LossRules::of_level(level, members).unwrap();
        for set in 0..1_u128 << members {
            let is_missing = |member: MemberIndex| set >> member.0 & 1 != 0;
            assert_eq!(rules.loses(set), layout.loses_data(&is_missing), "{level} x{members}, set {set:b}");
        }
    }
}

#[test]
fn members_fall_into_groups_where_nothing_else_matters() {
    let groups =
        |level: &str, members| LossRules::of_level(level.parse().unwrap(), members).unwrap().equal_groups();
    assert_eq!(groups("0", 4), Some((4, 1, 0)));
    assert_eq!(groups("1", 3), Some((1, 3, 2)));
    assert_eq!(groups("5", 6), Some((1, 6, 1)));
    assert_eq!(groups("6", 8), Some((1, 8, 2)));
    assert_eq!(groups("10", 6), Some((3, 2, 1)));
    assert_eq!(groups("50:2-spans", 6), Some((2, 3, 1)));
    assert_eq!(groups("60:3-spans", 12), Some((3, 4, 2)));
    assert_eq!(groups("1e", 5), None);
}

#[test]
fn a_rebuild_reads_without_redundancy_what_the_level_says() {
    for (level, members, failed, units) in [
        ("5", 6, 0b1, 5.0),
        ("6", 8, 0b1, 0.0),
        ("6", 8, 0b11, 6.0),
        ("10", 6, 0b1, 1.0),
        ("10", 6, 0b101, 1.0),
        ("1", 3, 0b1, 0.0),
        ("1", 3, 0b11, 1.0),
        ("1e", 5, 0b1, 1.0),
        ("50:2-spans", 6, 0b1, 2.0),
        ("60:2-spans", 8, 0b11, 2.0),
    ] {
        let rules = LossRules::of_level(level.parse().unwrap(), members).unwrap();
        assert!((rules.uncovered_units(failed, 0) - units).abs() < 1e-12, "{level} x{members} {failed:b}");
    }
}

/// Without redundancy and without repair there is a closed form: any failure is the loss.
#[test]
fn without_redundancy_the_first_failure_is_the_loss() {
    let risk = Risk::new(&spec("0", 5)).unwrap().markov();
    let exact = 1.0 - 0.99_f64.powi(5);
    assert!((risk.per_year / exact - 1.0).abs() < 1e-12, "{} against {exact}", risk.per_year);
}

/// Where repair is fast the formula of 1988 is near: its error is of the order of failure rate over repair rate.
#[test]
fn failures_alone_are_near_the_formula_of_1988() {
    for (level, members) in [("5", 8), ("10", 8), ("1", 2), ("50:2-spans", 8)] {
        let quiet = RiskSpec {
            bits_per_read_error: None,
            latent_errors_per_year: 0.0,
            spares: 8,
            ..spec(level, members)
        };
        let risk = Risk::new(&quiet).unwrap();
        let formula = 1.0 / risk.patterson_years().unwrap();
        let markov = risk.markov().per_year;
        assert!((markov / formula - 1.0).abs() < 0.02, "{level} x{members}: {markov:e} against {formula:e}");
    }
}

/// A rebuild of RAID 5 that nothing else goes wrong with is lost by read errors alone, which have a closed form.
#[test]
fn a_rebuild_is_lost_as_its_formula_says() {
    let only_bits = RiskSpec { annual_failure_share: 1e-9, latent_errors_per_year: 0.0, ..spec("5", 8) };
    let exact = -(-7.0 * 16e12 / 1e15_f64).exp_m1();
    let markov = Risk::new(&only_bits).unwrap().markov();
    assert!((markov.per_rebuild / exact - 1.0).abs() < 1e-6, "{} against {exact}", markov.per_rebuild);
}

#[test]
fn more_redundancy_spares_and_checks_lower_the_risk() {
    let per_year = |spec: &RiskSpec| Risk::new(spec).unwrap().markov().per_year;
    let five = spec("5", 8);
    assert!(per_year(&spec("6", 8)) < per_year(&five) / 10.0);
    // Read errors are met when a rebuild ends, so that a longer wait puts some of them off beyond the year.
    let quiet = RiskSpec { bits_per_read_error: None, latent_errors_per_year: 0.0, ..five.clone() };
    assert!(per_year(&RiskSpec { spares: 0, ..quiet.clone() }) > per_year(&quiet));
    assert!(per_year(&RiskSpec { check_days: None, ..five.clone() }) > per_year(&five));
    assert!(per_year(&RiskSpec { rebuild_hours: 120.0, ..quiet.clone() }) > per_year(&quiet));
    assert!(per_year(&RiskSpec { annual_failure_share: 0.0, ..five }) == 0.0);
}

/// A member that fails is lost with the array if another one follows before the rebuild ends: `s mu / (mu + 1 / mean)`.
#[test]
fn a_follower_loses_the_array_as_its_formula_says() {
    let only_followers = RiskSpec {
        annual_failure_share: 1e-9,
        bits_per_read_error: None,
        latent_errors_per_year: 0.0,
        followed_share: 0.129,
        follow_days: 9.5,
        ..spec("5", 8)
    };
    let found = Risk::new(&only_followers).unwrap().markov();
    let (follow, rebuild) = (1.0 / (9.5 * 24.0), 1.0 / 12.0);
    let exact = 0.129 * follow / (follow + rebuild);
    assert!((found.array_lost_per_rebuild / exact - 1.0).abs() < 1e-6, "{found:?} against {exact}");
    // All failures together are as many as without followers, so that the array is lost so often in a year.
    let per_year = 8.0 * 1e-9 * exact;
    assert!((found.array_lost_per_year / per_year - 1.0).abs() < 0.01, "{found:?} against {per_year}");
}

/// RAID 5 over two members is a mirror: a rebuild is lost with `1 / (1 + mu / lambda)` by the other one's failure. The rest is
/// hand arithmetic on a chain of two states.
#[test]
fn two_members_are_lost_as_the_chain_of_two_states_says() {
    let quiet = RiskSpec {
        annual_failure_share: 0.02,
        bits_per_read_error: None,
        latent_errors_per_year: 0.0,
        spares: 100,
        ..spec("1", 2)
    };
    let found = Risk::new(&quiet).unwrap().markov();
    let (failure, rebuild) = (-(0.98_f64).ln(), HOURS_PER_YEAR / 12.0);
    let per_rebuild = failure / (failure + rebuild);
    assert!((found.array_lost_per_rebuild / per_rebuild - 1.0).abs() < 1e-9, "{found:?}");
    // Of p' = A p with two living states the chance of being dead after a year, by its eigenvalues.
    let (a, b, c) = (2.0 * failure, failure + rebuild, rebuild);
    let root = ((a - b).powi(2) + 4.0 * a * c).sqrt();
    let (fast, slow) = (-(a + b + root) / 2.0, -2.0 * (a * b - a * c) / (a + b + root));
    let alive = (slow * fast.exp() - fast * slow.exp()) / (slow - fast);
    assert!((found.array_lost_per_year / (1.0 - alive) - 1.0).abs() < 1e-6, "{found:?}: {}", 1.0 - alive);
    let whole = 2.0 * 0.5 * 2e12;
    assert!((found.array_bytes_per_year / (found.array_lost_per_year * whole) - 1.0).abs() < 1e-12);
}

/// One unreadable block in a rebuild of RAID 5 is two blocks of its stripe, of which `7 / 8` are data; the array lives.
#[test]
fn an_unreadable_sector_is_no_lost_array() {
    let rare =
        RiskSpec { annual_failure_share: 1e-6, latent_errors_per_year: 0.0, spares: 8, ..spec("5", 8) };
    let found = Risk::new(&rare).unwrap().markov();
    let blocks_per_rebuild = 7.0 * 16e12 / 1e15;
    // A rebuild that the year ends before does not count: 12 of 8766 hours, nearly.
    let rebuilds = 8.0 * 1e-6 * (1.0 - 12.0 / 8766.0);
    let bytes = rebuilds * blocks_per_rebuild * 2.0 * 7.0 / 8.0 * 4096.0;
    assert!((found.sector_bytes_per_year / bytes - 1.0).abs() < 1e-4, "{found:?} against {bytes}");
    assert!(found.array_lost_per_year < 1e-6 * found.per_year_by_read_errors, "{found:?}");
    assert!(found.array_lost_per_rebuild < found.per_rebuild / 1e3, "{found:?}");
}

/// Ten blocks for each error are ten times the bytes and the same chance.
#[test]
fn blocks_of_an_error_are_bytes_and_not_chances() {
    let of = |blocks| {
        let flash = RiskSpec { bits_per_read_error: None, blocks_per_latent_error: blocks, ..spec("5", 8) };
        Risk::new(&flash).unwrap().markov()
    };
    let (one, ten) = (of(1.0), of(FLASH_BLOCKS_PER_ERROR));
    assert!((ten.sector_bytes_per_year / one.sector_bytes_per_year - 10.0).abs() < 1e-9);
    assert!((ten.per_year - one.per_year).abs() < 1e-15);
}

/// The rates of flash errors are what the study's shares of drives come to.
#[test]
fn rates_of_latent_errors_are_those_of_the_studies() {
    let rate = |share: f64, years: f64| -(-share).ln_1p() / years;
    let near =
        |found: f64, exact: f64| assert!((found / exact - 1.0).abs() < 1e-3, "{found} against {exact}");
    near(FLASH_LATENT_ERRORS_PER_YEAR.low, rate(0.20, 4.0));
    near(FLASH_LATENT_ERRORS_PER_YEAR.high, rate(0.63, 4.0));
    near(FLASH_LATENT_ERRORS_PER_YEAR.value, (rate(0.20, 4.0) * rate(0.63, 4.0)).sqrt());
    near(LATENT_ERRORS_PER_YEAR.low, rate(0.019, 32.0 / 12.0));
    near(LATENT_ERRORS_PER_YEAR.value, rate(0.0345, 32.0 / 12.0));
    near(LATENT_ERRORS_PER_YEAR.high, rate(0.085, 32.0 / 12.0));
    assert!((FOLLOW_DAYS + 7.0 / (0.48_f64).ln()).abs() < 0.05);
    let days: [f64; 2] = [2.0, 6.0].map(|of_thousand| of_thousand * 365.0 / 1000.0);
    let each = (days[0] * days[1]).sqrt() / FLASH_LATENT_ERRORS_PER_YEAR.value;
    assert!((each / FLASH_BLOCKS_PER_ERROR - 1.0).abs() < 0.1, "{each}");
}

#[test]
fn nonsense_is_refused() {
    let refused = |spec: RiskSpec| Risk::new(&spec).is_err();
    assert!(refused(RiskSpec { annual_failure_share: 1.0, ..spec("5", 4) }));
    assert!(refused(RiskSpec { rebuild_hours: 0.0, ..spec("5", 4) }));
    assert!(refused(RiskSpec { bits_per_read_error: Some(0.0), ..spec("5", 4) }));
    assert!(refused(RiskSpec { check_days: Some(f64::NAN), ..spec("5", 4) }));
    assert!(refused(RiskSpec { followed_share: 1.0, ..spec("5", 4) }));
    assert!(refused(RiskSpec { follow_days: 0.0, ..spec("5", 4) }));
    assert!(refused(spec("5", 2)));
    assert!(refused(spec("5", 129)));
}

#[test]
fn a_fleet_loses_as_many_arrays_as_its_arrays_do() {
    let bad = RiskSpec { annual_failure_share: 0.08, rebuild_hours: 48.0, ..spec("5", 8) };
    let fleet = fleet_risk(&Risk::new(&bad).unwrap(), 9_000, 40, 1).unwrap();
    assert_eq!(fleet.arrays, 1_000);
    let apart = (fleet.drawn_losses_per_year - fleet.losses_per_year).abs();
    assert!(apart <= fleet.drawn_losses_half_width, "{fleet:?}");
    assert!((fleet.failures_per_year / (8_000.0 * 0.0834) - 1.0).abs() < 0.05, "{fleet:?}");
    // One loss is not told to be one give or take nothing: the exact interval ends at 7.43, and at 5.30 of none.
    let none = fleet_risk(&Risk::new(&spec("6", 8)).unwrap(), 80, 1, 1).unwrap();
    assert!(
        none.drawn_losses_per_year == 0.0 && (none.drawn_losses_half_width - 5.298).abs() < 1e-3,
        "{none:?}"
    );
}

#[test]
fn what_too_few_drawn_years_tell_has_no_width() {
    let risk = Risk::new(&RiskSpec { annual_failure_share: 0.2, ..spec("5", 8) }).unwrap();
    for trials in [1, 2, 3, 10, 1_000] {
        for seed in 0..20 {
            let drawn = risk.monte_carlo(trials, seed);
            let is_known = drawn.per_year_half_width.is_some();
            assert_eq!(is_known, drawn.losses >= 2, "{trials} trials: {drawn:?}");
            assert!(drawn.per_year_half_width.is_none_or(|half| half > 0.0), "{trials} trials: {drawn:?}");
            assert_eq!(
                drawn.array_lost_half_width.is_some(),
                drawn.arrays_lost >= 2,
                "{trials} trials: {drawn:?}"
            );
        }
    }
    // Of two years the interval is that of Student's distribution with one degree of freedom, 63.66 errors wide.
    let two = (0..1_000).map(|seed| risk.monte_carlo(2, seed)).find(|drawn| drawn.losses == 2).unwrap();
    assert!(two.per_year_half_width > Some(two.per_year / 10.0), "{two:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The interval holds 99 % of all means; twice its width must hold every one that 48 cases draw.
    #[test]
    fn the_chain_lies_within_the_interval_of_the_drawn_years(
        which in 0..ARRAYS.len(),
        failure in 0.002..0.3_f64,
        rebuild_hours in 2.0..200.0_f64,
        replace_hours in 2.0..300.0_f64,
        spares in 0..3_u16,
        checks in proptest::option::of(1.0..60.0_f64),
        bits in proptest::option::of(1e14..1e17_f64),
        latent in 0.0..0.5_f64,
        // Followers are not drawn more often than they come, so that rare losses by them are missed.
        followed in Just(0.0),
        follow_days in 0.5..60.0_f64,
        seed in any::<u64>(),
    ) {
        let (level, members) = ARRAYS[which];
        let spec = RiskSpec {
            annual_failure_share: failure,
            rebuild_hours,
            replace_hours,
            spares,
            check_days: checks,
            bits_per_read_error: bits,
            latent_errors_per_year: latent,
            followed_share: followed,
            follow_days,
            ..spec(level, members)
        };
        let risk = Risk::new(&spec).unwrap();
        let (markov, drawn) = (risk.markov(), risk.monte_carlo(12_000, seed));
        let apart = (markov.per_year - drawn.per_year).abs();
        // Few losses tell little of their own spread.
        let room = if drawn.losses >= 100 { 2.0 * drawn.per_year_half_width.unwrap() } else { f64::INFINITY };
        prop_assert!(apart <= room, "{spec:?}: {markov:?} against {drawn:?}");
        let apart = (markov.array_lost_per_year - drawn.array_lost_per_year).abs();
        let room = if drawn.arrays_lost >= 100 { 2.0 * drawn.array_lost_half_width.unwrap() } else { f64::INFINITY };
        prop_assert!(apart <= room, "{spec:?}, arrays: {markov:?} against {drawn:?}");
        let apart = (markov.sector_bytes_per_year - drawn.sector_bytes_per_year).abs();
        let room = if drawn.losses >= 300 { 2.0 * drawn.sector_bytes_half_width.unwrap_or(0.0) } else { f64::INFINITY };
        prop_assert!(apart <= room, "{spec:?}, sectors: {markov:?} against {drawn:?}");
    }

    /// More members, a higher failure rate and slower rebuilds lose no fewer arrays.
    #[test]
    fn what_is_worse_loses_no_less(
        (level, members, more) in prop_oneof![
            Just(("5", 4, 5)), Just(("6", 5, 9)), Just(("10", 4, 8)), Just(("0", 2, 3)), Just(("1e", 5, 7)),
        ],
        failure in 0.002..0.2_f64,
        rebuild_hours in 2.0..200.0_f64,
        spares in 0..3_u16,
        followed in 0.0..0.3_f64,
        worse in 1.05..2.0_f64,
    ) {
        let base = RiskSpec {
            annual_failure_share: failure,
            rebuild_hours,
            spares,
            // A follower in a larger array of mirrors is less likely the one that matters.
            followed_share: if ["5", "6"].contains(&level) { followed } else { 0.0 },
            follow_days: 3.0,
            ..spec(level, members)
        };
        let lost = |spec: RiskSpec| Risk::new(&spec).unwrap().markov().array_lost_per_year;
        let here = lost(base.clone()) * (1.0 - 1e-9);
        let changes = [
            RiskSpec { members: more, ..base.clone() },
            RiskSpec { annual_failure_share: failure * worse, ..base.clone() },
            RiskSpec { rebuild_hours: rebuild_hours * worse, ..base },
        ];
        for change in changes {
            let there = lost(change.clone());
            prop_assert!(there >= here, "{change:?}: {there} against {here}");
        }
    }
}
