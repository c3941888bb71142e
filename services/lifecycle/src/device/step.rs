//! One step under way: every event that is emitted is folded in at once, so that what follows sees it.

use super::{evolve, expire, state::Device};
use crate::Context;
use fleet_schemas::{
    AttentionCleared, AttentionRaised, ConditionChanged, ConditionReport, DeviceEvent, GuardSeen, Micros, OperationEnded, OperationId,
    OperationStarted, OperationState, Phase, PhaseChanged, Severity, SiteId, SourceSeq, Then, Timestamp, WaitArmed, WaitKind,
};
use std::borrow::Cow;

pub(super) struct Step<'a> {
    pub(super) device: Cow<'a, Device>,
    pub(super) ctx: &'a Context<'a>,
    events: Vec<DeviceEvent>,
    /// Operations started in this decision so far.
    operations: usize,
}

impl<'a> Step<'a> {
    pub(super) fn new(device: &'a Device, ctx: &'a Context<'a>) -> Self {
        Self { device: Cow::Borrowed(device), events: Vec::new(), ctx, operations: 0 }
    }

    /// A step on from here, in the same decision; its events count once they are emitted here.
    pub(super) fn trial<'b>(&'b self, ctx: &'b Context<'b>) -> Step<'b> {
        Step { operations: self.operations, ..Step::new(&self.device, ctx) }
    }

    pub(super) fn into_events(self) -> Vec<DeviceEvent> {
        self.events
    }

    pub(super) fn emit(&mut self, event: impl Into<DeviceEvent>) {
        let event = event.into();
        evolve(self.device.to_mut(), &event, self.ctx.now);
        self.operations += usize::from(matches!(event, DeviceEvent::OperationStarted(_)));
        self.events.push(event);
    }

    /// Changes the phase along `edge`; `change` fills what this edge has to say beside that.
    pub(super) fn go(&mut self, to: Phase, edge: &str, guards: Vec<GuardSeen>, change: impl FnOnce(&mut PhaseChanged)) {
        let mut event = PhaseChanged {
            from: self.device.phase,
            to,
            edge: edge.into(),
            stage: None,
            cause: None,
            then: None,
            until: None,
            guards,
            reason: self.ctx.reason.into(),
        };
        change(&mut event);
        self.emit(event);
    }

    /// Into Draining, with its wait; `change` fills what this edge has to say beside where it leads.
    pub(super) fn start_drain(&mut self, edge: &str, then: Then, guards: Vec<GuardSeen>, change: impl FnOnce(&mut PhaseChanged)) {
        self.go(Phase::Draining, edge, guards, |e| {
            e.then = Some(then);
            change(e);
        });
        self.arm(WaitKind::Drain, "", super::SEVEN_DAYS);
    }

    pub(super) fn arm(&mut self, wait: WaitKind, name: &str, span: Micros) {
        self.arm_at(wait, name, self.ctx.now.plus(span));
    }

    pub(super) fn arm_at(&mut self, wait: WaitKind, name: &str, due: Timestamp) {
        let judge_at = due.plus(expire::grace(&self.device, wait, self.ctx.reference));
        self.emit(WaitArmed { wait, name: name.into(), since: self.ctx.now, due, judge_at });
    }

    pub(super) fn start_operation(&mut self, verb: &str, deadline: Option<Timestamp>) {
        self.end_operation(OperationState::Cancelled, &format!("`{verb}` took its place"));
        let (by, reason) = (self.ctx.actor.subject.clone(), self.ctx.reason.to_owned());
        self.emit(OperationStarted {
            operation: OperationId::of(self.ctx.decision, self.operations),
            verb: verb.into(),
            by,
            reason,
            deadline,
        });
    }

    pub(super) fn end_operation(&mut self, state: OperationState, message: &str) {
        if let Some(running) = &self.device.operation {
            let operation = running.id;
            self.emit(OperationEnded { operation, state, message: message.into() });
        }
    }

    pub(super) fn raise(&mut self, name: &str, why: String, ways_out: &[&str]) {
        if self.device.attention.get(name).is_none_or(|a| a.why != why) {
            self.emit(AttentionRaised { name: name.into(), why, ways_out: ways_out.iter().map(|w| (*w).to_owned()).collect() });
        }
    }

    pub(super) fn clear(&mut self, name: &str) {
        if self.device.attention.contains_key(name) {
            self.emit(AttentionCleared { name: name.into() });
        }
    }

    /// States a condition; says nothing where that is how it stands. Effects and severity come from the registry, never from a report.
    pub(super) fn state(&mut self, report: ConditionReport, site: SiteId, seq: Option<SourceSeq>, observed_at: Timestamp, live: bool) {
        let Some(known) = self.ctx.reference.condition_type(&site, &report.r#type) else { return };
        let source = known.source.to_owned();
        self.state_by(&source, report, site, seq, observed_at, live);
    }

    /// The same, said by another than the one whom the registry names.
    pub(super) fn state_by(
        &mut self,
        source: &str,
        report: ConditionReport,
        site: SiteId,
        seq: Option<SourceSeq>,
        observed_at: Timestamp,
        live: bool,
    ) {
        let reference = self.ctx.reference;
        let Some(known) = reference.condition_type(&site, &report.r#type) else { return };
        let before = self.device.conditions.get(&report.r#type, &report.subject);
        let same = before.is_some_and(|c| {
            (c.status, &c.reason, &c.message, &c.site) == (report.status, &report.reason, &report.message, &site)
                && (c.confirmed_live || !live)
        });
        if same {
            return;
        }
        let last_transition_at = before.filter(|c| c.status == report.status).map_or(observed_at, |c| c.last_transition_at);
        let holds = Some(report.status) == bad(known.sense);
        let severity = if holds { known.severity } else { Severity::Info };
        let effects = known.effects.to_vec();
        let source = source.to_owned();
        self.emit(ConditionChanged {
            report,
            severity,
            effects,
            source,
            site,
            source_seq: seq,
            observed_at,
            last_transition_at,
            confirmed_live: live,
        });
    }

    /// A condition that the hub itself derives.
    pub(super) fn derive(&mut self, r#type: &str, holds: bool, reason: &str, message: String) {
        let Some(site) = self.device.site.clone() else { return };
        let status = if holds { fleet_schemas::Status::True } else { fleet_schemas::Status::False };
        if !holds && self.device.condition(r#type).is_none() {
            return;
        }
        let report = ConditionReport { r#type: r#type.into(), subject: "device".into(), status, reason: reason.into(), message };
        self.state(report, site, None, self.ctx.now, true);
    }
}

fn bad(sense: crate::Sense) -> Option<fleet_schemas::Status> {
    match sense {
        crate::Sense::Readiness => Some(fleet_schemas::Status::False),
        crate::Sense::Problem => Some(fleet_schemas::Status::True),
        crate::Sense::Fact => None,
    }
}
