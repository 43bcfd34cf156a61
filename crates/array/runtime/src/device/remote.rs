//! An NBD export as a device: the connection, and blocking reads and writes, one at a time.
//!
//! ```text
//! URI ─► NbdClient ─► RemoteDevice ── reads, writes ──► into_client ─► Link, on the ring
//! ```
//! NBD has no locks: nothing keeps a second array, or any other client, from an export. Its server may (`nbdkit
//! --filter=limit limit=1`).
//!
//! A server offers flush if its export has a volatile cache. One without flush is trusted, as by Linux and QEMU: its
//! acknowledged writes count as durable. See [`Flushing`].
//!
//! Invariant: an export for use can be written, and its smallest block divides 4 KiB.
//! Left out: TLS.

use super::{Flushing, Purpose, UNIT_BYTES, ZEROS_BYTES, failed};
use crate::error::DeviceError;
use raidlab_device::safety::DeviceImage;
use raidlab_device::{NbdClient, NbdError, NbdPayload};
use raidlab_nbd::{ClientAgreement, ClientRequest, NbdUri, Op, TransmissionFlags};
use raidlab_units::ByteCount;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Longest write of zeros.
const ZEROS_REQUEST_BYTES: u64 = 32 << 20;

/// An export that is open.
#[derive(Debug)]
pub(crate) struct RemoteDevice {
    path: PathBuf,
    uri: NbdUri,
    bytes: ByteCount,
    agreement: ClientAgreement,
    client: RefCell<NbdClient>,
}

impl RemoteDevice {
    /// Connects to the export at `path`, which begins as a URI does.
    ///
    /// # Errors
    /// [`DeviceError`]: no URI, TLS, nobody there, a server that refuses or is silent, an export that can't be used for this.
    pub(crate) fn open(path: &Path, purpose: Purpose) -> Result<Self, DeviceError> {
        let refused = |reason: String| DeviceError::Refused { path: path.to_owned(), reason };
        let client = NbdClient::connect(path).map_err(|error| of_client(path, error))?;
        let agreement = *client.agreement();
        let (flags, unit) = (agreement.flags, u64::from(agreement.block_sizes.minimum()));
        if purpose == Purpose::Use && flags.contains(TransmissionFlags::READ_ONLY) {
            return Err(refused("its server offers it read-only, and a member is written".to_owned()));
        }
        if unit > UNIT_BYTES {
            let unit = ByteCount(unit);
            return Err(refused(format!("it takes requests in units of {unit} only; 4 KiB are the most")));
        }
        let (uri, bytes) = (client.uri().clone(), ByteCount(client.bytes()));
        Ok(Self { path: path.to_owned(), uri, bytes, agreement, client: RefCell::new(client) })
    }

    /// The URI as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length, whole smallest blocks.
    pub(crate) const fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// Whether two are the same export of the same server by the same name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.uri.transport == other.uri.transport && self.uri.export == other.uri.export
    }

    /// Its smallest block.
    pub(crate) fn io_unit(&self) -> ByteCount {
        ByteCount(self.agreement.block_sizes.minimum().into())
    }

    /// The connection, for a running array.
    pub(crate) fn into_client(self) -> NbdClient {
        self.client.into_inner()
    }

    /// The parts of it that signatures lie in.
    ///
    /// # Errors
    /// [`DeviceError::Io`].
    pub(crate) fn look(&self) -> Result<DeviceImage, DeviceError> {
        self.client.borrow_mut().look().map_err(|error| of_client(&self.path, error))
    }

    /// See [`super::Device::read`].
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
        self.client.borrow_mut().read(offset, bytes).map_err(|error| of_client(&self.path, error))
    }

    /// See [`super::Device::write`].
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let op = Op::Write { fua: Flushing::of(self.agreement.flags).has_fua(false) };
        let mut at = offset;
        let piece_bytes = self.client.borrow().piece_bytes() as usize;
        for piece in bytes.chunks(piece_bytes) {
            let length = piece.len() as u32;
            self.request("write to", op, (at, length), NbdPayload::Write(piece))?;
            at += u64::from(length);
        }
        Ok(())
    }

    /// See [`super::Device::zero`].
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> Result<(), DeviceError> {
        let can = self.agreement.flags.contains(TransmissionFlags::SEND_WRITE_ZEROES);
        let fua = Flushing::of(self.agreement.flags).has_fua(false);
        let zeros = vec![0; if can { 0 } else { ZEROS_BYTES.min(bytes) as usize }];
        let piece_max = if can { ZEROS_REQUEST_BYTES } else { ZEROS_BYTES };
        let mut done = 0;
        while done < bytes {
            let (at, piece) = (offset + done, piece_max.min(bytes - done));
            if can {
                let op = Op::WriteZeroes { fua, no_hole: true };
                self.request("write zeros to", op, (at, piece as u32), NbdPayload::None)?;
            } else {
                self.write(at, &zeros[..piece as usize])?;
            }
            done += piece;
        }
        Ok(())
    }

    /// See [`super::Device::sync`].
    pub(crate) fn sync(&self) -> Result<(), DeviceError> {
        if !Flushing::of(self.agreement.flags).has_flush() {
            return Ok(());
        }
        self.request("flush", Op::Flush, (0, 0), NbdPayload::None)
    }

    /// Does one request for the range from its first byte on, so many bytes, and waits for its end.
    fn request(
        &self,
        doing: &'static str,
        op: Op,
        (offset, length): (u64, u32),
        payload: NbdPayload<'_>,
    ) -> Result<(), DeviceError> {
        let mut client = self.client.borrow_mut();
        let request = ClientRequest { op, offset, length };
        client.request(request, payload).map_err(|source| failed(doing, &self.path, source))
    }
}

fn of_client(path: &Path, error: NbdError) -> DeviceError {
    match error {
        NbdError::Refused { reason } => DeviceError::Refused { path: path.to_owned(), reason },
        NbdError::Io { doing, source } => failed(doing, path, source),
    }
}
