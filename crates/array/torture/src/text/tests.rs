//! Plans survive being written and read; what can't be carried out is refused with a reason.

use super::*;
use crate::plan::TortureMode;

fn drawn(seed: u64) -> TorturePlan {
    let mode = if seed.is_multiple_of(2) { TortureMode::Bounded } else { TortureMode::Beyond };
    TorturePlan::draw(seed, 600, mode, None).expect("any level")
}

#[test]
fn a_plan_that_was_written_is_read_as_it_was() {
    let seeds = (0..200).chain([u64::MAX, 1 << 63, (1 << 63) - 1]);
    let plans: Vec<TorturePlan> = seeds.map(drawn).collect();
    assert!(plans.iter().any(|plan| plan.faults.len() > 10));
    assert_eq!(read_plans("f", &write_plans(&plans)), Ok(plans));
}

#[test]
fn a_plan_is_written_with_a_line_for_each_fault() {
    let mut plan = drawn(1);
    plan.rare_moments = false;
    plan.stories = false;
    plan.doubts = false;
    plan.older_members = false;
    plan.faults = vec![
        FaultEvent { after_ops: 7, fault: Fault::PowerCut, pick: 0x5eed },
        FaultEvent { after_ops: 7, fault: Fault::Returned, pick: u64::MAX },
    ];
    let text = write_plans(&[plan]);
    let head = "schema = 1\n\n[[plan]]\nseed = 1\nops = 600\nmode = \"beyond\"\nrare-moments = false\nstories = false\ndoubts = false\nolder-members = false\nfaults = [\n    \"7 power-cut 0x5eed\",\n    \
                \"7 returned 0xffffffffffffffff\",\n]\n\n[plan.workload]\niodepth = ";
    assert!(text.starts_with(head), "{text}");
    assert!(text.contains("\n[plan.config.cache]\n"), "{text}");
}

/// A plan that was stored before `mirror` came gets its default.
#[test]
fn settings_with_a_default_may_be_left_out() {
    let text = write_plans(&[drawn(4)]);
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("mirror = ")).collect();
    let mut plan = drawn(4);
    plan.config.cache.mirror = false;
    assert_eq!(read_plans("f", &kept.join("\n")), Ok(vec![plan]));
}

#[test]
fn what_can_not_be_carried_out_is_refused() {
    let mut plan = drawn(33);
    let event = |after_ops| FaultEvent { after_ops, fault: Fault::Pulled, pick: 1 };
    plan.faults = vec![event(120), event(130)];
    let good = write_plans(&[plan.clone()]);
    assert_eq!(read_plans("f.toml", &good).map(|plans| plans.len()), Ok(1));
    let with = |from: &str, to: &str| {
        let key = from.split(' ').next().unwrap_or_default();
        let line = good.lines().find(|line| line.trim_start().starts_with(key)).expect("such a line");
        good.replacen(line, to, 1)
    };
    let cases = [
        (String::new(), "f.toml:1: the key 'schema' is missing here"),
        ("schema = 1\nplan = []\n".into(), "there is no plan in it"),
        (with("schema", "schema = 2"), "schema = 2 is not known"),
        (with("iodepth", "iodpeth = 4"), "unknown key 'iodpeth': the nearest known is 'iodepth'"),
        (with("mode", "mode = \"bound\""), "unknown value 'bound': the nearest known is 'bounded'"),
        (with("ops", ""), "the key 'ops' is missing here"),
        (with("\"120", "\"120 puled 0x1\","), "there is no fault 'puled': the nearest known is 'pulled'"),
        (with("\"120", "\"120 pulled\","), "'120 pulled' is no fault"),
        (with("\"120", "\"120 pulled 12\","), "'120 pulled 12' is no fault"),
        (with("\"120", "\"-1 pulled 0x1\","), "'-1 pulled 0x1' is no fault"),
        (with("\"120", "\"5 stop 0x1\",\"4 stop 0x1\","), "plan 1: fault 1 is after 4 requests"),
        (with("iodepth", "iodepth = 0"), "plan 1: workload.iodepth is 0: it is a number from 1 to"),
        (with("blocks-max", "blocks-max = 0"), "workload.blocks-max is 0"),
        (with("read-pct", "read-pct = 101"), "workload.read-pct is 101: it is a number from 0 to 100"),
        (with("level", "level = \"50:7-spans\""), "RAID 50:7-spans is not tried"),
        (with("members", "members = 1"), "plan 1: RAID "),
        (with("spares", "spares = 65535"), "members and spares are too many: 64 are the most"),
        (with("member-size", "member-size = \"1TiB\""), "all in memory: 256 MiB are the most"),
        (with("member-size", "member-size = 4000001"), "member size of 4000001 bytes is not a multiple"),
        (with("log-size", "log-size = 18446744073709551615"), "all in memory"),
        (with("staging-size", "staging-size = 0"), "staging memory of 0 B is too small"),
        (with("flush-iodepth", "flush-iodepth = 0"), "flush-iodepth is 0"),
    ];
    for (text, said) in cases {
        let error = read_plans("f.toml", &text).expect_err(said).to_string();
        assert!(error.contains(said), "expected: {said}\nsaid: {error}");
    }
}
