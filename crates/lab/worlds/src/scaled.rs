//! An array's parts with one of them slower or faster than the catalogue has it: what an assumption that was wrong would have done.

use crate::arrays::Models;
use raidlab_hardware::{ControllerModel, ControllerPart, DriveModel, DrivePart, EnclosureModel, FasterPct};
use serde::{Deserialize, Serialize};

raidlab_units::named! {
    /// What a prediction assumes of the hardware.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Assumption {
        /// How long the members take.
        Drive = "drive",
        /// The links from the host to the controller, and from there to the members.
        Link = "link",
        /// What requests cost the processors that carry them: the controller's, or the host's where the array is software.
        Host = "host",
    }
}

/// The models of an array's parts, one kind of which takes another time.
#[derive(Clone, Debug)]
pub struct ScaledModels {
    controller: ControllerModel,
    enclosure: Option<EnclosureModel>,
    drive: DriveModel,
    beside: Option<DriveModel>,
}

impl ScaledModels {
    /// The parts of `models`, with all that `assumption` is about taking `times` as long, which is above zero.
    pub fn of(models: &Models<'_>, assumption: Assumption, times: f64) -> Self {
        let mut scaled = Self {
            controller: models.controller.clone(),
            enclosure: models.enclosure.cloned(),
            drive: models.drive.clone(),
            beside: models.beside.cloned(),
        };
        let by = FasterPct::taking(times);
        match assumption {
            Assumption::Drive => {
                scaled.drive_part(DrivePart::All, by);
                scaled.beside = scaled.beside.map(|drive| drive.faster(DrivePart::All, by).unwrap_or(drive));
            }
            Assumption::Link => {
                scaled.controller_parts(&[ControllerPart::HostLink, ControllerPart::MemberLink], by);
                scaled.drive_part(DrivePart::Interface, by);
                let bays = [&mut scaled.controller.bay_link, &mut scaled.controller.nvme_bay_link];
                bays.into_iter().flatten().for_each(|link| *link = by.link(*link));
                if let Some(enclosure) = &mut scaled.enclosure {
                    enclosure.port = by.link(enclosure.port);
                    enclosure.bay_link = enclosure.bay_link.map(|link| by.link(link));
                    if let Some(fabric) = &mut enclosure.fabric {
                        fabric.latency = by.span(fabric.latency);
                    }
                }
            }
            Assumption::Host => {
                use ControllerPart::{FirstThread, Memory, ParityEngine, Processors, StripeThreads};
                // In md the stripe threads have what the first thread of others has.
                let threads = if scaled.controller.md.is_some() { StripeThreads } else { FirstThread };
                scaled.controller_parts(&[Processors, threads, ParityEngine, Memory], by);
            }
        }
        scaled
    }

    /// The models themselves.
    pub fn models(&self) -> Models<'_> {
        Models {
            controller: &self.controller,
            enclosure: self.enclosure.as_ref(),
            drive: &self.drive,
            beside: self.beside.as_ref(),
        }
    }

    fn drive_part(&mut self, part: DrivePart, by: FasterPct) {
        if let Some(drive) = self.drive.faster(part, by) {
            self.drive = drive;
        }
    }

    fn controller_parts(&mut self, parts: &[ControllerPart], by: FasterPct) {
        for part in parts {
            if let Some(controller) = self.controller.faster(*part, by) {
                self.controller = controller;
            }
        }
    }
}
