//! What a SLURM agent needs, asked once.

use super::{Agent, token};
use crate::check::{Check, span};
use crate::{ClientError, Clock};
use fleet_schemas::{HOUR, LookFault, Timestamp};

impl Agent {
    /// Token, reach, rights, nodes and partitions. Only GET is sent.
    pub async fn check(mut self, clock: &dyn Clock) -> Vec<Check> {
        let now = clock.now();
        let token = match token::read(&self.settings.jwt_file, now) {
            Ok(token) => token,
            Err(e) => return vec![Check::wrong("SLURM token", e.to_string(), "scontrol token username=… lifespan=…, into jwt_file")],
        };
        let mut checks = vec![life(token::ends(&token), now)];
        match self.client.list(&token).await {
            Ok(listing) => {
                let version = self.client.version().map_or_else(String::new, |v| v.to_string());
                checks.push(Check::fine("SLURM", format!("{}: {version}", self.settings.url)));
                checks.push(Check::fine("nodes", format!("{} listed", listing.entries.len())));
                checks.push(match listing.partitions.known() {
                    0 => Check::wrong("partitions", "none is listed", "give the token's user the right to see partitions (PrivateData)"),
                    n => Check::fine("partitions", format!("{n} listed")),
                });
                let unreadable: Vec<_> = listing.entries.iter().filter_map(|(name, e)| e.as_ref().err().map(|_| name.as_str())).collect();
                if !unreadable.is_empty() {
                    checks.push(Check::wrong(
                        "entries",
                        format!("cannot be read: {}", unreadable.join(", ")),
                        "report them with `translate`",
                    ));
                }
            }
            Err(e) => checks.push(wrong(&e)),
        }
        checks
    }
}

fn life(ends: Option<Timestamp>, now: Timestamp) -> Check {
    match ends {
        None => Check::fine("SLURM token", "lives for ever"),
        Some(end) if end.since(now) < HOUR => {
            Check::wrong("SLURM token", format!("ends in {}", span(end.since(now))), "renew it well before its end")
        }
        Some(end) => Check::fine("SLURM token", format!("ends in {}", span(end.since(now)))),
    }
}

fn wrong(e: &ClientError) -> Check {
    let fix = match e.fault {
        LookFault::ApiTooOld => "run a slurmrestd that serves v0.0.37, v0.0.38, or v0.0.40 and up",
        LookFault::TokenExpired => "renew the token",
        LookFault::ControllerDown => "start slurmctld, or let slurmrestd reach it; 22.05 says the same of a refused token",
        LookFault::PermissionDenied => "give the token's user the right to see nodes (PrivateData=nodes hides them)",
        LookFault::NoData => "check url, user and token; an empty list is mostly a missing right",
    };
    Check::wrong("SLURM", format!("{}: {e}", e.fault), fix)
}
