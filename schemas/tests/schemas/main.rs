//! The contract: what is published stays, and stays readable.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use std::path::PathBuf;

macro_rules! every_record {
    ($f:ident) => {
        $f!(
            Genesis,
            Lease,
            DeviceListed,
            DeviceRelocated,
            DevicePhaseChanged,
            DeviceHeld,
            DeviceReleased,
            DeviceOperationStarted,
            DeviceOperationEnded,
            DeviceConditionChanged,
            DeviceState,
            BootstrapConfigVersioned,
            Claim,
            Decision,
            Progress,
            Command,
            Observation,
            Parked,
            ParkedClosed,
            NetboxDeviceSeen,
            NetboxDeviceGone,
            SlurmNodeSeen,
            SchedulerSeen,
            ConditionsSeen,
            SweepCompleted,
            LookFailed,
            Baseline,
            Activate,
            Drain,
            Resume,
            Quarantine,
            Validate,
            Maintain,
            EndMaintenance,
            PlaceHold,
            LiftHold,
            Annotate,
            SetAnnotations,
            AcknowledgeAttention,
            NotBuilt,
            RegisterSite,
            SetRoleProfile,
            FirstRoleProfile,
            ChangeRoleProfile,
            ClaimEpoch,
            ChangeSite,
            PlaceFreeze,
            LiftFreeze,
            RegisterType,
            InventoryChanged,
            DeviceMoved,
            PhaseChanged,
            DrainRedirected,
            DrainProven,
            DrainUnproven,
            StageSkipped,
            ConditionChanged,
            SchedulerChanged,
            HoldPlaced,
            HoldLifted,
            OperationStarted,
            OperationEnded,
            TaskPlanned,
            TaskDone,
            TaskWithdrawn,
            AttentionRaised,
            AttentionCleared,
            AttentionAcknowledged,
            WaitArmed,
            DeadlineUnobservable,
            DriftAccepted,
            EditJudged,
            AnnotationsChanged,
            SiteRegistered,
            RoleProfileSet,
            EpochGranted,
            FreshnessChanged,
            LooksFailing,
            CreateBootstrapConfig,
            UpdateBootstrapConfig,
            RetireBootstrapConfig,
            ReadUserData,
            BootstrapConfigCreated,
            BootstrapConfigChanged,
            BootstrapConfigRetired,
            TeamsSet,
            FreezePlaced,
            FreezeLifted,
            TypeRegistered,
            Take,
            GiveBack,
            ExclusiveGranted,
            ExclusiveContested,
            Granted,
            Contested,
            GivenBack,
            ClaimsChanged,
            GrantChanged,
            UnclaimedSeen,
            UnclaimedOpened,
            UnclaimedClosed
        )
    };
}

mod contracts;
mod golden;

fn avro() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("avro")
}

fn blessing() -> bool {
    std::env::var_os("FM_BLESS").is_some()
}
