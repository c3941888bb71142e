//! A report becomes a condition.

use super::{claims, step::Step};
use crate::{Sighting, condition_type};
use fleet_schemas::{ConditionReport, ExclusiveKind, Source};

/// States what an agent reports, where the type is registered to its source.
pub(super) fn report(step: &mut Step<'_>, sighting: &Sighting, report: ConditionReport, source: Source) {
    // What a name is contested by is for its stream to say.
    let of_a_name = report.subject.split_once('/').is_some_and(|(kind, _)| kind.parse::<ExclusiveKind>().is_ok());
    if report.r#type == claims::CONFLICT && of_a_name {
        return;
    }
    if condition_type(&report.r#type).is_some_and(|t| t.source == source.as_str()) {
        step.state(report, sighting.site.clone(), Some(sighting.seq.clone()), sighting.observed_at, sighting.live());
    }
}
