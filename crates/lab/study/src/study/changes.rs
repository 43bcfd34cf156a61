//! A user's changes to a study: where it runs, and how long.
//!
//! ```text
//! target          [[measure]]                              [[array]]
//! a folder        a test file in it, for each such target  members in turn over all such targets
//! anything else   the existing storage                     -
//! ```
//! Invariant: modelled arrays stay as they are.

use super::Study;
use raidlab_measure::array::SoftwareArray;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_worlds::{LoadPlan, check_iodepths};
use std::path::PathBuf;

/// The test file in a folder, and the folder of members.
const TEST_FILE: &str = "raidlab-study.test-file";
const MEMBERS: &str = "raidlab-study.members";

/// Changes; what is empty stays as the study has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StudyChanges {
    /// Folders, and files or devices that are there.
    pub targets: Vec<PathBuf>,
    /// Names of targets whose data may be written over.
    pub destroy_data: Vec<String>,
    /// Size of test files, and of each member and the part of the volume in use of real arrays.
    pub size: Option<ByteCount>,
    /// Requests in flight on real storage.
    pub iodepths: Vec<u32>,
    /// Time before each measured window on real storage.
    pub ramp: Option<NanoSpan>,
    /// Length of each measured window on real storage.
    pub run: Option<NanoSpan>,
}

impl Study {
    /// The study with `changes`.
    ///
    /// # Errors
    /// What can't be changed so, in words.
    pub fn changed(mut self, changes: &StudyChanges) -> Result<Self, String> {
        self.check_changes(changes)?;
        if !changes.targets.is_empty() {
            self.move_to(changes)?;
        }
        let measures = self.measures.iter_mut().map(|section| &mut section.load);
        for load in measures.chain(self.arrays.iter_mut().map(|section| &mut section.load)) {
            change_load(load, changes);
        }
        if let Some(size) = changes.size {
            self.resize(size)?;
        }
        Ok(self)
    }

    /// Checks that no change changes nothing.
    fn check_changes(&self, changes: &StudyChanges) -> Result<(), String> {
        if *changes == StudyChanges::default() {
            return Ok(());
        }
        let loads = self.measures.iter().map(|section| &section.load);
        let loads: Vec<&LoadPlan> = loads.chain(self.arrays.iter().map(|section| &section.load)).collect();
        if loads.is_empty() {
            return Err(
                "it has nothing on real storage, which is what can be changed: change the file".into()
            );
        }
        if changes.iodepths.is_empty() {
            return Ok(());
        }
        check_iodepths(loads.iter().flat_map(|load| &load.workloads)).map_err(|error| error.to_string())
    }

    fn move_to(&mut self, changes: &StudyChanges) -> Result<(), String> {
        let folders: Vec<&PathBuf> = changes.targets.iter().filter(|target| target.is_dir()).collect();
        if !self.arrays.is_empty() && folders.is_empty() {
            return Err("the study's arrays are made over files: name a folder for them".into());
        }
        for section in &mut self.arrays {
            section.directories = folders.iter().map(|folder| folder.join(MEMBERS)).collect();
        }
        let sections = std::mem::take(&mut self.measures);
        // All of a target before the next one, so that its test file is laid out once.
        for target in &changes.targets {
            for mut section in sections.iter().cloned() {
                section.is_there = !target.is_dir();
                section.path = if section.is_there { target.clone() } else { target.join(TEST_FILE) };
                section.destroy_data.clone_from(&changes.destroy_data);
                self.measures.push(section);
            }
        }
        Ok(())
    }

    fn resize(&mut self, size: ByteCount) -> Result<(), String> {
        for section in &mut self.measures {
            section.load.check_region(size)?;
            section.size = size;
        }
        for section in &mut self.arrays {
            section.load.check_region(size)?;
            for array in &mut section.arrays {
                let config = raidlab_controller::ArrayConfig { member_size: size, ..array.config.clone() };
                let changed = SoftwareArray::new(config)
                    .map_err(|error| format!("members of {size} make no {}: {error}", array.label()))?;
                *array = SoftwareArray { threads: array.threads, ..changed };
            }
            // A mirror holds whole strips only.
            section.region = section.arrays.iter().map(|array| array.usable).chain([size]).min();
        }
        Ok(())
    }
}

fn change_load(load: &mut LoadPlan, changes: &StudyChanges) {
    if !changes.iodepths.is_empty() {
        load.iodepths.clone_from(&changes.iodepths);
    }
    load.settles &= changes.ramp.is_none();
    load.ramp = changes.ramp.unwrap_or(load.ramp);
    load.run = changes.run.unwrap_or(load.run);
}

#[cfg(test)]
mod tests {
    use crate::study::{Study, StudyChanges};
    use raidlab_hardware::Catalog;
    use raidlab_units::{ByteCount, NanoSpan};
    use std::path::{Path, PathBuf};

    const STUDIES: [(&str, &str); 3] = [
        ("md1200-2011", include_str!("../../../../../studies/md1200-2011.toml")),
        ("fastt600-2004", include_str!("../../../../../studies/fastt600-2004.toml")),
        ("primergy-2008", include_str!("../../../../../studies/primergy-2008.toml")),
    ];

    fn study(id: &str) -> Study {
        let (_, text) = STUDIES.iter().find(|(known, _)| *known == id).expect("it is one of them");
        Study::parse(id, text, &Catalog::builtin()).unwrap()
    }

    #[test]
    fn studies_of_papers_name_their_paper_and_can_be_made_small() {
        for (id, _) in STUDIES {
            let study = study(id);
            assert_eq!(study.compare_paper.as_deref(), Some(id));
            let (runs, size) = (study.run_count(), ByteCount::from_mib(16));
            let changes = StudyChanges {
                size: Some(size),
                ramp: Some(NanoSpan::ZERO),
                run: Some(NanoSpan::from_millis(20)),
                ..StudyChanges::default()
            };
            let small = study.changed(&changes).unwrap();
            assert_eq!(small.run_count(), runs);
            assert!(
                small.measures.iter().all(|section| section.size == size && section.load.run.0 == 20_000_000)
            );
            assert!(small.arrays.iter().all(|section| section.region == Some(size)));
        }
    }

    #[test]
    fn test_files_go_to_each_target_and_members_to_all_folders_in_turn() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let device = a.path().join("volume");
        std::fs::write(&device, "data").unwrap();
        let targets: Vec<PathBuf> = [a.path(), &device, b.path()].map(Path::to_owned).into();
        let changes =
            StudyChanges { targets, destroy_data: vec!["volume".into()], ..StudyChanges::default() };
        let moved = study("primergy-2008").changed(&changes).unwrap();
        let places: Vec<(PathBuf, bool)> =
            moved.measures.iter().map(|section| (section.path.clone(), section.is_there)).collect();
        let file = |folder: &Path| (folder.join("raidlab-study.test-file"), false);
        assert_eq!(places, [file(a.path()), (device.clone(), true), file(b.path())]);
        let members = [a.path(), b.path()].map(|folder| folder.join("raidlab-study.members"));
        assert!(moved.arrays.iter().all(|section| section.directories == members));
        let changes = StudyChanges { targets: vec![device], ..StudyChanges::default() };
        let refused = study("primergy-2008").changed(&changes).unwrap_err();
        assert!(refused.contains("name a folder"), "{refused}");
        assert_eq!(study("md1200-2011").changed(&changes).unwrap().measures.len(), 1);
    }

    /// Changes are of real storage: where there is none, or they change none of it, they are refused.
    #[test]
    fn changes_that_would_change_nothing_are_refused() {
        let simulated = include_str!("../../../../../studies/dual-controllers.toml");
        let changed = |text: &str, changes: &StudyChanges| {
            Study::parse("s.toml", text, &Catalog::builtin()).unwrap().changed(changes)
        };
        let run = StudyChanges { run: Some(NanoSpan::from_millis(20)), ..StudyChanges::default() };
        assert!(changed(simulated, &run).unwrap_err().contains("nothing on real storage"));
        assert!(changed(simulated, &StudyChanges::default()).is_ok());
        let own = "schema = 1\ntitle = 't'\nquestion = 'q'\nseed = 1\n[load]\nworkloads = ['kv-cache']\nrun = '50ms'\n\
                   [[measure]]\npath = 'f'\nsize = '1GiB'\ndirect = false\n";
        let iodepths = StudyChanges { iodepths: vec![4], ..StudyChanges::default() };
        assert!(changed(own, &iodepths).unwrap_err().contains("'kv-cache' has its own number"));
        assert!(changed(own, &run).is_ok());
    }

    #[test]
    fn a_size_that_holds_no_request_is_refused() {
        let changes = StudyChanges { size: Some(ByteCount::from_kib(4)), ..StudyChanges::default() };
        assert!(study("md1200-2011").changed(&changes).is_err());
    }
}
