//! A report becomes a condition.

use super::step::Step;
use crate::{Sighting, condition_type};
use fleet_schemas::{ConditionReport, Source};

/// States what an agent reports, where the type is registered to its source.
pub(super) fn report(step: &mut Step<'_>, sighting: &Sighting, report: ConditionReport, source: Source) {
    if condition_type(&report.r#type).is_some_and(|t| t.source == source.as_str()) {
        step.state(report, sighting.site.clone(), Some(sighting.seq.clone()), sighting.observed_at, sighting.live());
    }
}
