//! The bodies that several answers share.

/// Each with its name.
pub(crate) const SHAPES: &[(&str, &str)] = &[
    (
        "Problem",
        "{type:string title:string status:int detail:string code:string field*:string position*:int guard*:string expected*:string seen*:string helps*:string}",
    ),
    ("OAuthError", "{error:string error_description*:string}"),
    ("Meta", "{as_of:time? lag_seconds:number? sources:[{site:string source:string fresh:bool since:time}]}"),
    ("Cite", "{partition:int offset:int hash:string}"),
    ("BadCondition", "{type:string status:string reason:string}"),
    (
        "DeviceItem",
        "{id*:uuid name*:string site*:string role*:string phase*:string? owner*:string tenant_state*:string rack*:string? slurm_node*:string? conditions_bad*:[BadCondition] updated_at*:time version*:int}",
    ),
    (
        "Device",
        "{id*:uuid name*:string version*:int updated_at*:time hash*:string stopped*:string? identity*:object? inventory*:object? lifecycle*:Lifecycle scheduler*:object? conditions*:[Condition] operation*:object? annotations*:<string> plans*:[Plan] waiting_for*:[Waiting] at*:time}",
    ),
    (
        "Lifecycle",
        "{phase:string? since:time stage:string? cause:string? then:string? drain_proven:bool until:time? owner:string tenant_state:string untested:[string] profile_site:string? holds:[{name:string by:string reason:string since:time expires_at:time?}] attention:[{name:string why:string since:time ways_out:[string] acknowledged:Acknowledged?}]}",
    ),
    ("Acknowledged", "{by:string at:time reason:string}"),
    (
        "Condition",
        "{device*:uuid name*:string type*:string subject*:string status*:string reason*:string message*:string said*:string? severity*:string effects*:[string] source*:string site*:string observed_at*:time last_transition_at*:time age_seconds*:int confirmed_live*:bool bad*:bool}",
    ),
    ("Plan", "{task:uuid kind:string target:string mark:string why:string since:time state:string instruction:string?}"),
    ("Waiting", "{what:string since:time? until:time? owner:string helps:string}"),
    ("Verdict", "{verb:string allowed:bool code*:string guard*:string expected*:string seen*:string helps*:string}"),
    (
        "Decision",
        "{id:uuid version:int recorded_at:time occurred_at:time? observed_at:time? received_at:time? cause:object actor:object reason:string outcome:object events:[object] prev_hash:string journal:Cite}",
    ),
    ("Entry", "{at:time version:int actor:string cause:string text:string journal:Cite}"),
    (
        "Operation",
        "{id*:uuid device*:uuid name*:string site*:string verb*:string state*:string by*:string reason*:string message*:string started_at*:time ended_at*:time? deadline*:time?}",
    ),
    (
        "AttentionItem",
        "{id*:string device*:uuid name*:string site*:string role*:string item*:string why*:string since*:time owner*:string ways_out*:[string] acknowledged*:Acknowledged?}",
    ),
    (
        "SiteItem",
        "{site_id:string modes:<string> sources:[{source:string fresh:bool since:time interval_seconds:int fault:string? problem:string epoch:int}]}",
    ),
    ("Site", "{site_id:string modes:<string> sources:[object] version:int role_profiles:<object> owners:Owners freezes:[Freeze]}"),
    ("Owners", "{sources:<string> roles:<string>}"),
    ("OwnersPatch", "{sources*:<string?> roles*:<string?>}"),
    (
        "RoleProfile",
        "{site_id:string role:string provisioner:string scheduler:string dhcp:string workload_proofs:[string] bom:string firmware:string validation:string burn_in:string}",
    ),
    ("Freeze", "{name:string by:string reason:string since:time until:time?}"),
    (
        "ConditionType",
        "{name:string built_in:bool source:string? sense:string severity:string effects:[string] ttl_seconds:int? writers:[string] about:string}",
    ),
    ("Rehearsal", "{dry_run:bool would:string version:int}"),
    ("Pending", "{detail:string command*:uuid state*:string decision*:uuid version*:int}"),
    (
        "Decided",
        "{operation:uuid? decision:uuid repeated:bool dry_run:bool would:string? device:{id:uuid name:string? phase:string? version:int}}",
    ),
    ("Orphan", "{site:string source:string native_id:string detail:string since:time age_seconds:int}"),
    ("UnclaimedItem", "{native_id:string present:bool detail*:string source_seq*:SourceSeq}"),
    ("Denial", "{at:time client:string reason:string method:string path:string detail:string unrecorded:int}"),
    ("SourceSeq", "{epoch:int counter:int}"),
    ("Run", "{boot*:uuid epoch*:int sent_at*:time}"),
    (
        "ConditionReport",
        "{device*:string native_id*:string? type:string subject*:string status:(True|False|Unknown) reason:string message*:string observed_at*:time? source_seq*:SourceSeq}",
    ),
    (
        "Sweep",
        "{source:string complete:bool count*:int interval_seconds*:int fault*:(NoData|TokenExpired|ControllerDown|ApiTooOld|PermissionDenied) message*:string observed_at*:time source_seq*:SourceSeq}",
    ),
    (
        "SchedulerPatch",
        "{slurm_node*:string? state*:[string] reservation*:string? slurmd_start_time*:time? cpus*:int alloc_cpus*:int partitions*:[string] features*:[string] gres*:string? reason*:string? user*:string? since*:time? drain_since*:time? observed_at*:time? source_seq*:SourceSeq}",
    ),
    ("DevicePatch", "{device:string slurm_node:string scheduler:SchedulerPatch? observed_at*:time source_seq*:SourceSeq}"),
    (
        "Observation",
        "{id:uuid stream:string native_id:string observed_at:time source_seq:SourceSeq fact:{type:string schema:string bytes:string}}",
    ),
    ("BatchAnswer", "{epoch*:int results:[{result:(stored|refused) code*:string detail*:string}] device_list*:string}"),
    (
        "PatchedDevice",
        "{id*:uuid name*:string? version*:int scheduler*:object? operation*:uuid? decision*:uuid repeated*:bool dry_run*:bool would*:string? device*:object}",
    ),
    (
        "BootstrapConfig",
        "{id:uuid site_id:string device_role:string version:int image:string? flavor:string? features:[string] gres:string? user_data*:string? user_data_sha256:string? adoptable:bool not_adoptable:[{field:string reason:string}] warnings*:[string] created_at:time updated_at:time updated_by:string retired*:bool dry_run*:bool would*:string}",
    ),
    (
        "Parked",
        "{id:string topic:string partition:int offset:int key:string bytes:int sha256:string parked_by:string why:string parked_at:time closed:object?}",
    ),
    (
        "Generations",
        "{items:[{generation:int active:bool fed:bool idle:bool partitions:[{partition:int next:int recorded_at:time? stopped:string?}]}]}",
    ),
];
