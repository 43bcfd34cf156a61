//! Compares every layout with a slow, obvious oracle: a grid of rows and members, filled strip by strip as the textbook
//! draws it, with no formula in common with the layouts.

use proptest::prelude::*;
use raidlab_raid::{
    FailuresSurvived, Layout, LayoutSpec, Level, LevelVariant, MirrorLayout, ParityRotation, StripUnit,
    StripeShape, build_layout, narrow_stripes,
};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeIndex};
use std::collections::BTreeMap;

/// What a cell of the grid holds: a unit of a stripe.
type Cell = Option<(u64, StripUnit)>;
/// `rows x members` cells.
type Picture = Vec<Vec<Cell>>;

const fn data(strip: u16, copy: u16) -> StripUnit {
    StripUnit::Data { strip, copy }
}

fn draw(variant: LevelVariant, members: usize, rows: usize) -> Picture {
    match (variant.level, variant.mirror_layout) {
        (Level::Jbod, _) => draw_jbod(members, rows),
        (Level::Raid0, _) => draw_rows(rows, |row| (0..members).map(|m| (row, data(m as u16, 0))).collect()),
        (Level::Raid1, _) => draw_rows(rows, |row| (0..members).map(|m| (row, data(0, m as u16))).collect()),
        (Level::Raid1e, MirrorLayout::Near) => draw_1e(members, rows),
        (Level::Raid3, _) => draw_rows(rows, |row| {
            let strips = (0..members - 1).map(|m| (row, data(m as u16, 0)));
            strips.chain([(row, StripUnit::Parity(0))]).collect()
        }),
        (Level::Raid10, MirrorLayout::Near) => draw_rows(rows, |row| {
            (0..members / 2).flat_map(|s| [(row, data(s as u16, 0)), (row, data(s as u16, 1))]).collect()
        }),
        (Level::Raid1e | Level::Raid10, MirrorLayout::Far) => draw_far(members, rows),
        (Level::Raid1e | Level::Raid10, MirrorLayout::Offset) => draw_offset(members, rows),
        (Level::Raid5, _) => draw_parity(variant.parity_rotation, members, rows, 1),
        (Level::Raid6, _) => draw_parity(variant.parity_rotation, members, rows, 2),
        (Level::Raid50, _) => draw_spans(variant, members, rows, 1),
        (Level::Raid60, _) => draw_spans(variant, members, rows, 2),
    }
}

fn draw_rows(rows: usize, row: impl Fn(u64) -> Vec<(u64, StripUnit)>) -> Picture {
    (0..rows as u64).map(|r| row(r).into_iter().map(Some).collect()).collect()
}

fn draw_jbod(members: usize, rows: usize) -> Picture {
    let mut picture = vec![vec![None; members]; rows];
    let mut stripe = 0;
    for member in 0..members {
        for row in &mut picture {
            row[member] = Some((stripe, data(0, 0)));
            stripe += 1;
        }
    }
    picture
}

/// Walks along the rows, laying down each strip and then its copy, until there is no room for both.
fn draw_1e(members: usize, rows: usize) -> Picture {
    let mut picture = vec![vec![None; members]; rows];
    let mut cells = picture.iter_mut().flatten();
    let mut stripe = 0;
    while let (Some(first), Some(second)) = (cells.next(), cells.next()) {
        *first = Some((stripe, data(0, 0)));
        *second = Some((stripe, data(0, 1)));
        stripe += 1;
    }
    picture
}

/// Rows of first copies, a strip to a stripe.
fn draw_data_rows(members: usize, rows: usize) -> Picture {
    let mut stripes = 0..;
    let mut row = || stripes.by_ref().take(members).map(|stripe| Some((stripe, data(0, 0)))).collect();
    (0..rows).map(|_| row()).collect()
}

/// The second copies of a row: each takes one step to the right, the last goes to the front.
fn shifted(row: &[Cell]) -> Vec<Cell> {
    let mut copies: Vec<Cell> = row.iter().map(|cell| cell.map(|(stripe, _)| (stripe, data(0, 1)))).collect();
    copies.rotate_right(1);
    copies
}

/// All data, then all copies, then the row that has no partner.
fn draw_far(members: usize, rows: usize) -> Picture {
    let mut picture = draw_data_rows(members, rows / 2);
    let copies: Picture = picture.iter().map(|row| shifted(row)).collect();
    picture.extend(copies);
    picture.resize(rows, vec![None; members]);
    picture
}

/// Each row of data with its copies below, then the row that has no partner.
fn draw_offset(members: usize, rows: usize) -> Picture {
    let mut picture = vec![];
    for row in draw_data_rows(members, rows / 2) {
        let copies = shifted(&row);
        picture.extend([row, copies]);
    }
    picture.resize(rows, vec![None; members]);
    picture
}

/// Walks P over the members row by row, lays the parities down from there, and then the data.
fn draw_parity(rotation: ParityRotation, members: usize, rows: usize, parities: u16) -> Picture {
    use ParityRotation::{LeftAsymmetric, LeftSymmetric, RightSymmetric};
    let moves_left = matches!(rotation, LeftSymmetric | LeftAsymmetric);
    let symmetric = matches!(rotation, LeftSymmetric | RightSymmetric);
    let mut p_member = if moves_left { members - 1 } else { 0 };
    let mut picture = vec![];
    for row in 0..rows as u64 {
        let mut cells: Vec<Cell> = vec![None; members];
        let mut member = p_member;
        let mut step = || {
            let here = member;
            member = if member == members - 1 { 0 } else { member + 1 };
            here
        };
        for parity in 0..parities {
            cells[step()] = Some((row, StripUnit::Parity(parity)));
        }
        for strip in 0..members as u16 - parities {
            let free = if symmetric {
                step()
            } else {
                cells.iter().position(Option::is_none).expect("room for each strip")
            };
            cells[free] = Some((row, data(strip, 0)));
        }
        picture.push(cells);
        p_member = match (moves_left, p_member) {
            (true, 0) => members - 1,
            (true, p) => p - 1,
            (false, p) if p == members - 1 => 0,
            (false, p) => p + 1,
        };
    }
    picture
}

/// Draws the spans side by side, then numbers the stripes along each row.
fn draw_spans(variant: LevelVariant, members: usize, rows: usize, parities: u16) -> Picture {
    let spans = usize::from(variant.spans);
    let span = draw_parity(variant.parity_rotation, members / spans, rows, parities);
    let mut stripe = 0;
    let mut picture = vec![];
    for span_row in span {
        let mut row = vec![];
        for _ in 0..spans {
            row.extend(span_row.iter().map(|cell| cell.map(|(_, unit)| (stripe, unit))));
            stripe += 1;
        }
        picture.push(row);
    }
    picture
}

fn layout_of(variant: LevelVariant, members: u16, strip_blocks: u64, member_blocks: u64) -> Box<dyn Layout> {
    let (strip_blocks, member_blocks) = (BlockCount(strip_blocks), BlockCount(member_blocks));
    let spec = LayoutSpec { level: variant, members, strip_blocks, member_blocks };
    build_layout(&spec).unwrap_or_else(|error| panic!("{variant} over {members}: {error}"))
}

/// Every variant that `members` members allow, by the rules as people state them.
fn variants(members: u16) -> Vec<LevelVariant> {
    let plain = |level| vec![LevelVariant::from(level)];
    let rotating = |level: Level, spans| -> Vec<LevelVariant> {
        let rotate = |parity_rotation| LevelVariant { spans, parity_rotation, ..level.into() };
        ParityRotation::ALL.map(rotate).into()
    };
    let mirrored = |level: Level| -> Vec<LevelVariant> {
        MirrorLayout::ALL.map(|mirror_layout| LevelVariant { mirror_layout, ..level.into() }).into()
    };
    let mut all = vec![];
    let mut add = |allowed: bool, variants: Vec<LevelVariant>| {
        if allowed {
            all.extend(variants);
        }
    };
    add(true, plain(Level::Jbod));
    add(true, plain(Level::Raid0));
    add(members >= 2, plain(Level::Raid1));
    add(members >= 3, mirrored(Level::Raid1e));
    add(members >= 3, plain(Level::Raid3));
    add(members >= 3, rotating(Level::Raid5, 1));
    add(members >= 4, rotating(Level::Raid6, 1));
    add(members >= 4 && members.is_multiple_of(2), mirrored(Level::Raid10));
    for spans in 2..=members {
        let even = members.is_multiple_of(spans);
        add(even && members / spans >= 3, rotating(Level::Raid50, spans));
        add(even && members / spans >= 3, rotating(Level::Raid60, spans));
    }
    all
}

/// Rows that a variant needs: copies on rows of their own need two.
fn rows_min(variant: LevelVariant) -> u64 {
    if variant.mirror_layout == MirrorLayout::Near { 1 } else { 2 }
}

/// Calls `check` for the cross product of variants, members, strip lengths, rows and unused tails.
fn sweep(strips: &[u64], rows: &[u64], mut check: impl FnMut(LevelVariant, u16, u64, u64)) {
    for members in 1..=12 {
        for variant in variants(members) {
            for &strip_blocks in strips {
                for &rows in rows.iter().filter(|rows| **rows >= rows_min(variant)) {
                    for tail in [0, strip_blocks - 1] {
                        check(variant, members, strip_blocks, rows * strip_blocks + tail);
                    }
                }
            }
        }
    }
}

#[test]
fn only_what_a_level_allows_is_built() {
    for members in 0..=12 {
        for variant in conceivable(members) {
            let (strip_blocks, member_blocks) = (BlockCount(8), BlockCount(80));
            let spec = LayoutSpec { level: variant, members, strip_blocks, member_blocks };
            let allowed = members > 0 && variants(members).contains(&variant);
            assert_eq!(build_layout(&spec).is_ok(), allowed, "{variant} over {members}");
        }
    }
}

/// Every level with every number of spans, rotation and mirror layout, whether it makes sense or not.
fn conceivable(members: u16) -> Vec<LevelVariant> {
    let mut all = vec![];
    for level in Level::ALL {
        for spans in 1..=members.max(1) {
            for parity_rotation in ParityRotation::ALL {
                for mirror_layout in MirrorLayout::ALL {
                    all.push(LevelVariant { level, spans, parity_rotation, mirror_layout });
                }
            }
        }
    }
    all
}

#[test]
fn copies_on_rows_of_their_own_need_two_rows() {
    for (member_blocks, allowed) in [(8, false), (15, false), (16, true)] {
        for level in ["10:far", "10:offset", "1e:far", "1e:offset"] {
            let (strip_blocks, member_blocks) = (BlockCount(8), BlockCount(member_blocks));
            let level = level.parse().expect(level);
            let spec = LayoutSpec { level, members: 4, strip_blocks, member_blocks };
            assert_eq!(build_layout(&spec).is_ok(), allowed, "{level} over members of {member_blocks}");
        }
    }
}

#[test]
fn identify_and_place_are_as_drawn() {
    sweep(&[1, 3, 8], &[1, 2, 3, 13], |variant, members, strip_blocks, member_blocks| {
        let what = format!("{variant} over {members} x {member_blocks}, strips of {strip_blocks}");
        let layout = layout_of(variant, members, strip_blocks, member_blocks);
        let picture = draw(variant, usize::from(members), (member_blocks / strip_blocks) as usize);
        assert_eq!(layout.member_count(), members, "{what}");
        let mut units: BTreeMap<(u64, StripUnit), (u16, u64)> = BTreeMap::new();
        for member in 0..members {
            for lba in 0..member_blocks {
                let cell =
                    picture.get((lba / strip_blocks) as usize).and_then(|row| row[usize::from(member)]);
                let found = layout.identify(MemberIndex(member), MemberLba(lba));
                let expected =
                    cell.map(|(stripe, unit)| (StripeIndex(stripe), unit, BlockCount(lba % strip_blocks)));
                assert_eq!(found, expected, "{what}: m{member} block {lba}");
                if let Some(unit) = cell {
                    units.entry(unit).or_insert((member, lba));
                }
            }
        }
        for (&(stripe, unit), &(member, start)) in &units {
            let place = layout.place(StripeIndex(stripe), unit);
            assert_eq!((place.member.0, place.start.0), (member, start), "{what}: stripe {stripe} {unit:?}");
        }
        assert_shape(layout.as_ref(), &units, &what);
    });
}

/// The stripes that were drawn are exactly those of the shape, on members that differ, with no unit on two
/// places.
fn assert_shape(layout: &dyn Layout, units: &BTreeMap<(u64, StripUnit), (u16, u64)>, what: &str) {
    let shape = layout.shape();
    let mut expected = vec![];
    for strip in 0..shape.data_strips {
        expected.extend((0..shape.copies).map(|copy| data(strip, copy)));
    }
    expected.extend((0..shape.parities).map(StripUnit::Parity));
    let mut stripes: BTreeMap<u64, Vec<(StripUnit, u16)>> = BTreeMap::new();
    for (&(stripe, unit), &(member, _)) in units {
        stripes.entry(stripe).or_default().push((unit, member));
    }
    assert_eq!(layout.stripe_count().0, stripes.len() as u64, "{what}");
    for (index, (stripe, members_of)) in stripes.iter().enumerate() {
        assert_eq!(*stripe, index as u64, "{what}: stripes are numbered without a gap");
        assert_eq!(members_of.iter().map(|(unit, _)| *unit).collect::<Vec<_>>(), expected, "{what}");
        let mut distinct: Vec<u16> = members_of.iter().map(|(_, member)| *member).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), members_of.len(), "{what}: stripe {stripe} uses a member twice");
    }
}

#[test]
fn the_volume_is_filled_in_order_and_as_large_as_the_formula_says() {
    sweep(&[1, 3, 8], &[1, 3, 4], |variant, members, strip_blocks, member_blocks| {
        let what = format!("{variant} over {members} x {member_blocks}, strips of {strip_blocks}");
        let layout = layout_of(variant, members, strip_blocks, member_blocks);
        let (n, rows, spans) = (u64::from(members), member_blocks / strip_blocks, u64::from(variant.spans));
        let usable_strips = match variant.level {
            Level::Jbod | Level::Raid0 => n * rows,
            Level::Raid1 => rows,
            Level::Raid1e | Level::Raid10 if variant.mirror_layout != MirrorLayout::Near => n * (rows / 2),
            Level::Raid1e | Level::Raid10 => n * rows / 2,
            Level::Raid3 | Level::Raid5 => (n - 1) * rows,
            Level::Raid6 => (n - 2) * rows,
            Level::Raid50 => (n - spans) * rows,
            Level::Raid60 => (n - 2 * spans) * rows,
        };
        assert_eq!(layout.volume_blocks(), BlockCount(usable_strips * strip_blocks), "{what}");
        let mut lba = 0;
        for stripe in 0..layout.stripe_count().0 {
            for strip in 0..layout.shape().data_strips {
                for block in 0..strip_blocks {
                    let expected = (StripeIndex(stripe), strip, BlockCount(block));
                    assert_eq!(layout.locate(Lba(lba)), expected, "{what}: block {lba}");
                    lba += 1;
                }
            }
        }
        assert_eq!(lba, usable_strips * strip_blocks, "{what}");
    });
}

#[test]
fn failures_survived_are_what_trying_every_set_of_failures_gives() {
    for members in 1..=12 {
        for variant in variants(members) {
            // Enough rows for every rotation and every neighbourhood of RAID 1E to occur.
            let rows = u64::from(members).max(rows_min(variant));
            let layout = layout_of(variant, members, 1, rows);
            let picture = draw(variant, usize::from(members), rows as usize);
            let parities = layout.shape().parities;
            let (mut always, mut at_best) = (members, 0);
            for failed in 0..1_u32 << members {
                let count = failed.count_ones() as u16;
                if all_readable(&picture, parities, failed) {
                    at_best = at_best.max(count);
                } else {
                    always = always.min(count - 1);
                }
            }
            let expected = FailuresSurvived { always, at_best };
            assert_eq!(layout.failures_survived(), expected, "{variant} over {members}");
        }
    }
}

/// Whether all data can be read with the members of the bit set `failed` gone: a copy of each strip is left,
/// or no more strips of a stripe are gone than it has parities.
fn all_readable(picture: &Picture, parities: u16, failed: u32) -> bool {
    let mut copies_left: BTreeMap<(u64, u16), u32> = BTreeMap::new();
    let mut strips_gone: BTreeMap<u64, u16> = BTreeMap::new();
    for row in picture {
        for (member, (stripe, unit)) in row.iter().enumerate().filter_map(|(m, cell)| Some((m, (*cell)?))) {
            let alive = failed >> member & 1 == 0;
            *strips_gone.entry(stripe).or_default() += u16::from(!alive);
            if let StripUnit::Data { strip, .. } = unit {
                *copies_left.entry((stripe, strip)).or_default() += u32::from(alive);
            }
        }
    }
    copies_left.iter().all(|((stripe, _), left)| {
        let recoverable = parities > 0 && strips_gone[stripe] <= parities;
        *left > 0 || recoverable
    })
}

/// Draws a layout as text, with the data strips numbered from the start of the volume.
fn text_of(layout: &dyn Layout, rows: u64) -> String {
    let mut lines = vec![];
    for row in 0..rows {
        let cells = (0..layout.member_count()).map(|member| {
            match layout.identify(MemberIndex(member), MemberLba(row)) {
                None => "-".to_string(),
                Some((_, StripUnit::Parity(parity), _)) => ["P", "Q"][usize::from(parity)].to_string(),
                Some((stripe, StripUnit::Data { strip, copy }, _)) => {
                    let number = stripe.0 * u64::from(layout.shape().data_strips) + u64::from(strip);
                    format!("{number}{}", "'".repeat(usize::from(copy)))
                }
            }
        });
        lines.push(cells.collect::<Vec<_>>().join(" "));
    }
    lines.join(" / ")
}

#[test]
fn layouts_look_as_the_textbooks_draw_them() {
    for (level, members, rows, picture) in [
        ("jbod", 3, 2, "0 2 4 / 1 3 5"),
        ("0", 3, 2, "0 1 2 / 3 4 5"),
        ("1", 2, 2, "0 0' / 1 1'"),
        ("1", 3, 2, "0 0' 0'' / 1 1' 1''"),
        ("1e", 3, 3, "0 0' 1 / 1' 2 2' / 3 3' -"),
        // The next two as SNIA's DDF draws RAID-1E over five.
        ("1e", 5, 3, "0 0' 1 1' 2 / 2' 3 3' 4 4' / 5 5' 6 6' -"),
        ("1e:offset", 5, 4, "0 1 2 3 4 / 4' 0' 1' 2' 3' / 5 6 7 8 9 / 9' 5' 6' 7' 8'"),
        ("1e:offset", 3, 3, "0 1 2 / 2' 0' 1' / - - -"),
        // As the head of md's raid10.c draws far copies over four and five.
        ("10:far", 4, 2, "0 1 2 3 / 3' 0' 1' 2'"),
        ("1e:far", 5, 2, "0 1 2 3 4 / 4' 0' 1' 2' 3'"),
        ("10:far", 4, 5, "0 1 2 3 / 4 5 6 7 / 3' 0' 1' 2' / 7' 4' 5' 6' / - - - -"),
        ("10:offset", 4, 4, "0 1 2 3 / 3' 0' 1' 2' / 4 5 6 7 / 7' 4' 5' 6'"),
        ("3", 4, 2, "0 1 2 P / 3 4 5 P"),
        ("5", 4, 5, "0 1 2 P / 4 5 P 3 / 8 P 6 7 / P 9 10 11 / 12 13 14 P"),
        ("5:left-asymmetric", 4, 4, "0 1 2 P / 3 4 P 5 / 6 P 7 8 / P 9 10 11"),
        ("5:right-symmetric", 4, 4, "P 0 1 2 / 5 P 3 4 / 7 8 P 6 / 9 10 11 P"),
        ("5:right-asymmetric", 4, 4, "P 0 1 2 / 3 P 4 5 / 6 7 P 8 / 9 10 11 P"),
        ("6", 5, 5, "Q 0 1 2 P / 3 4 5 P Q / 7 8 P Q 6 / 11 P Q 9 10 / P Q 12 13 14"),
        ("6:left-asymmetric", 5, 5, "Q 0 1 2 P / 3 4 5 P Q / 6 7 P Q 8 / 9 P Q 10 11 / P Q 12 13 14"),
        ("6:right-symmetric", 5, 5, "P Q 0 1 2 / 5 P Q 3 4 / 7 8 P Q 6 / 9 10 11 P Q / Q 12 13 14 P"),
        ("6:right-asymmetric", 5, 5, "P Q 0 1 2 / 3 P Q 4 5 / 6 7 P Q 8 / 9 10 11 P Q / Q 12 13 14 P"),
        ("10", 4, 2, "0 0' 1 1' / 2 2' 3 3'"),
        ("50:2-spans", 6, 3, "0 1 P 2 3 P / 5 P 4 7 P 6 / P 8 9 P 10 11"),
        ("60:2-spans", 8, 2, "Q 0 1 P Q 2 3 P / 4 5 P Q 6 7 P Q"),
    ] {
        let variant = level.parse().expect(level);
        assert_eq!(text_of(layout_of(variant, members, 1, rows).as_ref(), rows), picture, "{level}");
    }
}

/// Linux md numbers the strips for Q along the members from the one after Q on, and leaves P out. That is the
/// order of the volume in the symmetric rotations, and in the asymmetric ones where parity does not part the
/// data.
#[test]
fn q_weighs_the_strips_as_md_does_in_the_symmetric_rotations() {
    for members in 4..=12 {
        for parity_rotation in ParityRotation::ALL {
            let variant = LevelVariant { parity_rotation, ..Level::Raid6.into() };
            let layout = layout_of(variant, members, 1, u64::from(members));
            for row in 0..u64::from(members) {
                let unit_on = |member| {
                    layout.identify(MemberIndex(member), MemberLba(row)).expect("every cell is used").1
                };
                let q_member = layout.place(StripeIndex(row), StripUnit::Parity(1)).member.0;
                let from_q = (q_member + 1..members).chain(0..q_member).map(unit_on);
                let md_order: Vec<StripUnit> = from_q.filter(|unit| *unit != StripUnit::Parity(0)).collect();
                let volume_order: Vec<StripUnit> = (0..members - 2).map(|strip| data(strip, 0)).collect();
                let is_parity = |member| matches!(unit_on(member), StripUnit::Parity(_));
                let symmetric =
                    matches!(parity_rotation, ParityRotation::LeftSymmetric | ParityRotation::RightSymmetric);
                let in_one_piece = is_parity(0) || is_parity(members - 1);
                let agrees = symmetric || in_one_piece;
                assert_eq!(md_order == volume_order, agrees, "{variant} over {members}, row {row}");
            }
        }
    }
}

/// Wide and large arrays, where no picture can be drawn.
fn large() -> impl Strategy<Value = (LevelVariant, u16, u64, u64)> {
    let level = (0..Level::ALL.len(), 0..4_usize, 0..3_usize, 2..=5_u16, 4..=254_u16);
    let sizes =
        (prop_oneof![1..1000_u64, (0..12_u32).prop_map(|shift| 1 << shift)], 2..1_u64 << 40, 0..1000_u64);
    (level, sizes).prop_map(|((level, rotation, mirror, spans, members), (strip_blocks, rows, tail))| {
        let level = Level::ALL[level];
        let spanned = matches!(level, Level::Raid50 | Level::Raid60);
        let rotating = spanned || matches!(level, Level::Raid5 | Level::Raid6);
        let mirrored = matches!(level, Level::Raid1e | Level::Raid10);
        let variant = LevelVariant {
            level,
            spans: if spanned { spans } else { 1 },
            parity_rotation: ParityRotation::ALL[if rotating { rotation } else { 0 }],
            mirror_layout: MirrorLayout::ALL[if mirrored { mirror } else { 0 }],
        };
        let members = if level == Level::Raid10 { members - members % 2 } else { members };
        (variant, members * variant.spans, strip_blocks, rows * strip_blocks + tail % strip_blocks)
    })
}

proptest! {
    #[test]
    fn the_places_of_a_stripe_are_those_of_its_units(
        (variant, members, strip_blocks, member_blocks) in large(),
        stripe: u64,
    ) {
        let layout = layout_of(variant, members, strip_blocks, member_blocks);
        let shape = layout.shape();
        let stripe = StripeIndex(stripe % layout.stripe_count().0);
        let copies = |strip| (0..shape.copies).map(move |copy| data(strip, copy));
        let units = (0..shape.data_strips).flat_map(copies).chain((0..shape.parities).map(StripUnit::Parity));
        let expected: Vec<_> = units.map(|unit| layout.place(stripe, unit)).collect();
        let mut places = vec![expected[0]];
        layout.places(stripe, &mut places);
        prop_assert_eq!(places, expected);
    }

    #[test]
    fn identify_inverts_place_and_locate_inverts_counting(
        (variant, members, strip_blocks, member_blocks) in large(),
        picks in prop::collection::vec((any::<u64>(), any::<u16>(), any::<u64>()), 20),
    ) {
        let layout = layout_of(variant, members, strip_blocks, member_blocks);
        let shape = layout.shape();
        for (stripe, unit, block) in picks {
            let stripe = StripeIndex(stripe % layout.stripe_count().0);
            let units = shape.data_strips * shape.copies + shape.parities;
            let unit = match unit % units {
                u if u < shape.parities => StripUnit::Parity(u),
                u => data((u - shape.parities) / shape.copies, (u - shape.parities) % shape.copies),
            };
            let block = BlockCount(block % strip_blocks);
            let place = layout.place(stripe, unit);
            if let StripUnit::Data { strip, copy } = unit {
                let members_of = |copy| layout.place(stripe, data(strip, copy)).member;
                let elsewhere = (0..shape.copies).filter(|other| *other != copy).map(members_of);
                prop_assert!(elsewhere.into_iter().all(|member| member != place.member));
            }
            prop_assert!(place.start.0 + strip_blocks <= member_blocks);
            prop_assert_eq!(layout.identify(place.member, place.start + block), Some((stripe, unit, block)));
            if let StripUnit::Data { strip, .. } = unit {
                let strips = stripe.0 * u64::from(shape.data_strips) + u64::from(strip);
                let lba = Lba(strips * strip_blocks + block.0);
                prop_assert_eq!(layout.locate(lba), (stripe, strip, block));
            }
        }
    }
}

/// Narrow stripes leave every block where it is, of the volume and on its member, and have one row of each strip.
#[test]
fn narrow_stripes_move_no_block() {
    for (strip_blocks, row_blocks) in [(8, 1), (8, 2), (6, 3), (8, 8)] {
        for variant in ["5", "6:left-asymmetric", "50:2-spans", "10:far"] {
            let variant: LevelVariant = variant.parse().expect(variant);
            let wide = layout_of(variant, 6, strip_blocks, 5 * strip_blocks + 1);
            let copy = layout_of(variant, 6, strip_blocks, 5 * strip_blocks + 1);
            let narrow = narrow_stripes(copy, BlockCount(row_blocks)).expect("whole rows");
            let what = format!("{variant}, strips of {strip_blocks} in rows of {row_blocks}");
            assert_eq!(narrow.volume_blocks(), wide.volume_blocks(), "{what}");
            for lba in (0..wide.volume_blocks().0).map(Lba) {
                assert_same_place(&*wide, &*narrow, lba, &what);
            }
            let mut places = vec![];
            for stripe in (0..narrow.stripe_count().0).map(StripeIndex) {
                narrow.places(stripe, &mut places);
                let member_rows: Vec<_> = places.iter().map(|place| place.start.0 % strip_blocks).collect();
                assert!(
                    narrow.shape().copies > 1 || member_rows.iter().all(|row| *row == member_rows[0]),
                    "{what}"
                );
                for (unit, place) in units_of(narrow.shape()).zip(&places) {
                    assert_eq!(narrow.place(stripe, unit), *place, "{what}: {unit:?} of {stripe:?}");
                    let found = narrow.identify(place.member, place.start);
                    assert_eq!(found, Some((stripe, unit, BlockCount(0))), "{what}");
                }
            }
        }
    }
    let error = narrow_stripes(layout_of("5".parse().expect("a level"), 3, 8, 80), BlockCount(3));
    let message =
        "a strip of 8 blocks can't be cut into rows of 3: choose a strip that is a multiple of a row";
    assert_eq!(error.expect_err("no whole rows").to_string(), message);
}

/// A block has the same place in both layouts, and its narrow stripe tells its address.
fn assert_same_place(wide: &dyn Layout, narrow: &dyn Layout, lba: Lba, what: &str) {
    let of = |layout: &dyn Layout| {
        let (stripe, strip, block) = layout.locate(lba);
        assert_eq!(layout.strip_start(stripe, strip) + block, lba, "{what}: {lba:?}");
        let place = layout.place(stripe, data(strip, 0));
        (strip, place.member, place.start + block, layout.run_blocks(lba))
    };
    assert_eq!(of(narrow), of(wide), "{what}: {lba:?}");
}

/// The units of a stripe in the order of [`Layout::places`].
fn units_of(shape: StripeShape) -> impl Iterator<Item = StripUnit> {
    let strips =
        (0..shape.data_strips).flat_map(move |strip| (0..shape.copies).map(move |copy| data(strip, copy)));
    strips.chain((0..shape.parities).map(StripUnit::Parity))
}
