//! Which generation serves, which stands beside, and which number comes next.

use super::Control;
use crate::db::Error;
use crate::sql::Sql;

/// The numbers of the generation that serves, and of the one beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) active: i64,
    pub(crate) standby: Option<i64>,
}

/// No generation; a number of one is positive.
const NONE: i64 = -1;

impl Numbers {
    /// `self` in the place of `seen`, if that is what stands there.
    pub(crate) fn change(self, seen: Self, sql: impl FnOnce(&'static str) -> Sql) -> Sql {
        let set = "UPDATE generation SET active = $1, standby = nullif($2, -1) WHERE active = $3 AND coalesce(standby, -1) = $4";
        sql(set).with(self.active).with(self.standby.unwrap_or(NONE)).with(seen.active).with(seen.standby.unwrap_or(NONE))
    }
}

impl Control {
    /// As they stand; the first process finds the first generation.
    pub(crate) async fn numbers(&self) -> Result<Numbers, Error> {
        let first = "INSERT INTO generation (one, active) VALUES (1, 1) ON CONFLICT DO NOTHING";
        let asked = self.pool.sql("SELECT active, standby FROM generation");
        let found = match self.pool.optional(asked.clone()).await? {
            Some(found) => found,
            None => {
                self.pool.run(self.pool.sql(first)).await?;
                self.pool.one(asked).await?
            }
        };
        Ok(Numbers { active: found.int("active")?, standby: found.opt_int("standby")? })
    }

    /// Changes them, unless they are no longer as they were seen: then nothing is.
    pub(crate) async fn renumber(&self, seen: Numbers, numbers: Numbers) -> Result<(), Error> {
        match self.pool.run(numbers.change(seen, |text| self.pool.sql(text))).await? {
            1 => Ok(()),
            _ => Err(Error::Moved),
        }
    }

    /// A number that no generation had.
    pub(crate) async fn next_number(&self) -> Result<i64, Error> {
        let greatest = if self.pool.dialect() == crate::sql::Dialect::Sqlite { "max" } else { "greatest" };
        let next = format!("UPDATE generation SET last = {greatest}(active, coalesce(last, 0), coalesce(standby, 0)) + 1 RETURNING last");
        self.pool.one(self.pool.sql(next)).await?.int("last")
    }
}
