//! The client's side: the handshake, then the transmission.

mod fault;
mod handshake;
mod ranges;
mod transmission;

pub use fault::ServerFault;
pub use handshake::{ClientAgreement, ClientHandshake, ClientOptions, ClientStep, ClientTls};
pub use ranges::RANGES_MAX;
pub use transmission::{ClientEvent, ClientRequest, ClientTransmission, SubmitError};
