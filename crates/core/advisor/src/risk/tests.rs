//! The two methods against each other, against closed formulas where those are exact or near, and the rules against the
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
        latent_errors_per_year: LATENT_ERRORS_PER_YEAR,
        capacity: ByteCount(2_000_000_000_000),
        rebuild_hours: 12.0,
        spares: 1,
        replace_hours: 24.0,
        check_days: Some(7.0),
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

#[test]
fn nonsense_is_refused() {
    let refused = |spec: RiskSpec| Risk::new(&spec).is_err();
    assert!(refused(RiskSpec { annual_failure_share: 1.0, ..spec("5", 4) }));
    assert!(refused(RiskSpec { rebuild_hours: 0.0, ..spec("5", 4) }));
    assert!(refused(RiskSpec { bits_per_read_error: Some(0.0), ..spec("5", 4) }));
    assert!(refused(RiskSpec { check_days: Some(f64::NAN), ..spec("5", 4) }));
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
            ..spec(level, members)
        };
        let risk = Risk::new(&spec).unwrap();
        let (markov, drawn) = (risk.markov(), risk.monte_carlo(12_000, seed));
        let apart = (markov.per_year - drawn.per_year).abs();
        // Few losses tell little of their own spread.
        let room = if drawn.losses >= 100 { 2.0 * drawn.per_year_half_width } else { f64::INFINITY };
        prop_assert!(apart <= room, "{spec:?}: {markov:?} against {drawn:?}");
    }
}
