//! What happens once, whoever tries: an assertion is used, a parked input is closed.

use super::Control;
use crate::db::Error;
use crate::queries::ParkedRow;
use fleet_schemas::Timestamp;

impl Control {
    /// Notes that a client's assertion is used; false when it was before. Times are seconds since 1970.
    pub async fn use_assertion(&self, client: &str, jti: &str, expires_at: i64, now: i64) -> Result<bool, Error> {
        self.pool.run(self.pool.sql("DELETE FROM jti WHERE expires_at < $1").with(now)).await?;
        let insert = "INSERT INTO jti (client, jti, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        Ok(self.pool.run(self.pool.sql(insert).with(client).with(jti).with(expires_at)).await? == 1)
    }

    /// Takes the closing of a parked input; false when somebody else has it, or it is done. One that was begun before `cut_off` and not
    /// ended was cut off with its process.
    pub(crate) async fn take_closing(&self, row: &ParkedRow, at: Timestamp, cut_off: Timestamp) -> Result<bool, Error> {
        let claim = "INSERT INTO parked_closing (topic, partition, \"offset\", at, done) VALUES ($1, $2, $3, $4, false)
             ON CONFLICT (topic, partition, \"offset\") DO UPDATE SET at = excluded.at WHERE NOT parked_closing.done AND parked_closing.at < $5";
        let claim = self.pool.sql(claim).with(&row.topic).with(row.partition).with(row.offset);
        Ok(self.pool.run(claim.with(at).with(cut_off)).await? == 1)
    }

    /// What failed may be tried again at once; what is done is so for ever.
    pub(crate) async fn end_closing(&self, row: &ParkedRow, done: bool) -> Result<(), Error> {
        let end = match done {
            true => "UPDATE parked_closing SET done = true WHERE topic = $1 AND partition = $2 AND \"offset\" = $3",
            false => "DELETE FROM parked_closing WHERE topic = $1 AND partition = $2 AND \"offset\" = $3",
        };
        self.pool.run(self.pool.sql(end).with(&row.topic).with(row.partition).with(row.offset)).await?;
        Ok(())
    }
}
