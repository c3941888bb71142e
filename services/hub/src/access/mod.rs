//! Who may do what: clients prove themselves by a signed assertion ([`assertion`]), get a short-lived access token ([`issuer`]), and
//! every route names the scope it needs ([`routes`]).

mod anyone;
mod assertion;
mod clients;
mod denials;
mod granted;
mod issuer;
mod keys;
mod limits;
pub mod outside;
mod routes;
mod scope;

pub use anyone::Anyone;
pub use assertion::{Unproven, verify_assertion};
pub use clients::{Client, Clients};
pub use denials::Denials;
pub use fleet_projections::Denial;
pub use granted::{Granted, Principal};
pub use issuer::{Claims, Issuer, LIFE as TOKEN_LIFE};
pub use keys::{KeyPair, generate_key, public_jwk};
pub use limits::Limits;
pub use routes::{Routes, Scoped};
pub use scope::*;
