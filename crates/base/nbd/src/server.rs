//! The server's side: the handshake, then the transmission.

mod handshake;
mod reply;
mod request;
mod transmission;

pub use handshake::{
    ClientFault, OPTION_BYTES_MAX, OPTIONS_MAX, SKIPPED_BYTES_MAX, ServerAgreement, ServerHandshake,
    ServerStep, ServerTls,
};
pub use reply::{BufferId, Head, Output, Payload};
pub use request::{Piece, PieceEnd};
pub use transmission::{Fate, Intake, PIECE_BYTES_MIN, ServerLimits, ServerTransmission};
