//! The command line. The verbs come from the table that the API uses.

use crate::exit::Failure;
use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser, value_parser};
use fleet_schemas::verbs::{Kind, TABLE, Verb};

/// The whole command line.
pub fn command() -> Command {
    let base = Command::new("fmctl")
        .about("Looks at a fleet and gives it commands")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .args(globals())
        .subcommand(get())
        .subcommand(named("describe", "a device whole").arg(what(&["device"])).arg(device()))
        .subcommand(named("why", "what a device waits for, and what may be asked of it").arg(device()))
        .subcommand(named("timeline", "what happened to a device, in words").arg(device()).arg(limit()))
        .subcommand(named("history", "the decisions on a device").arg(device()).arg(limit()))
        .subcommand(site())
        .subcommand(apply())
        .subcommand(projections())
        .subcommand(parked())
        .subcommand(
            named("acknowledge", "say that something is known to wait; it goes on waiting, and a new reason asks anew")
                .arg(Arg::new("item").required(true).value_name("DEVICE:ITEM").help("which, as `get attention -o wide` has it"))
                .arg(reason().required(true)),
        )
        .subcommand(wait())
        .subcommand(named("whoami", "who the hub takes us for, and what we may do where"))
        .subcommand(auth())
        .subcommand(
            named("completion", "a completion script")
                .arg(Arg::new("shell").required(true).value_parser(value_parser!(clap_complete::Shell)).help("bash, zsh, fish")),
        )
        .subcommand(named("version", "the version"));
    TABLE.iter().fold(base, |command, v| command.subcommand(verb(v)))
}

fn named(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about)
}

fn globals() -> Vec<Arg> {
    let text = |name: &'static str, help: &'static str| Arg::new(name).long(name).global(true).help(help);
    vec![
        text("context", "file with url, client and key [env: FM_CONTEXT]").value_name("FILE"),
        text("output", "how to print").short('o').value_parser(["table", "wide", "json", "yaml", "name"]).default_value("table"),
        text("no-headers", "no header line").action(ArgAction::SetTrue),
        text("quiet", "nothing but data").short('q').action(ArgAction::SetTrue),
    ]
}

fn device() -> Arg {
    Arg::new("device").required(true).value_name("DEVICE").help("name or id")
}

fn what(kinds: &'static [&'static str]) -> Arg {
    Arg::new("what").required(true).value_parser(PossibleValuesParser::new(kinds)).help("what kind of thing")
}

fn limit() -> Arg {
    Arg::new("limit").long("limit").value_parser(value_parser!(u32).range(1..=500)).default_value("50").help("lines at most")
}

fn get() -> Command {
    named("get", "a list")
        .arg(what(&["devices", "conditions", "operations", "attention", "sites", "configs", "orphans", "denials"]))
        .arg(
            Arg::new("filter")
                .long("filter")
                .help("`field = value AND …` (devices, conditions, operations, attention); docs/API.md has the fields"),
        )
        .arg(Arg::new("site").long("site").help("only this site (devices, attention, configs, orphans)"))
        .arg(Arg::new("source").long("source").help("only of this source (orphans)"))
        .arg(Arg::new("device").long("device").help("only this device (operations; conditions, without filter)"))
        .arg(Arg::new("state").long("state").help("only this state (operations)"))
        .arg(
            Arg::new("max")
                .long("max")
                .value_parser(value_parser!(u32))
                .default_value("500")
                .help("lines at most; more are said to be there"),
        )
}

fn site() -> Command {
    let baseline = named("baseline", "take over what already runs: preview, then confirm")
        .arg(Arg::new("site").required(true).help("the site"))
        .arg(Arg::new("preview").long("preview").action(ArgAction::SetTrue).help("look, confirm nothing"))
        .arg(Arg::new("only").long("only").value_delimiter(',').value_name("DEVICE,…").help("confirm these alone, by name or id"))
        .arg(reason().default_value("baseline"))
        .arg(yes());
    named("site", "a site").subcommand_required(true).subcommand(baseline)
}

fn apply() -> Command {
    named("apply", "make bootstrap configurations say what a file says")
        .arg(
            Arg::new("file")
                .short('f')
                .long("file")
                .required(true)
                .value_name("FILE")
                .help("YAML or JSON, one or several documents {site_id, device_role, image, flavor, features, gres, user_data | user_data_file}; a field that is left out stays"),
        )
        .arg(Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("say what would happen, change nothing"))
        .arg(Arg::new("diff").long("diff").action(ArgAction::SetTrue).help("show what changes; of user-data its digest alone"))
}

fn projections() -> Command {
    let anyway = Arg::new("flip-anyway").long("flip-anyway").action(ArgAction::SetTrue).help("flip although the two differ");
    named("projections", "the generations of the read model")
        .subcommand_required(true)
        .subcommand(named("list", "all of them, and how far they are"))
        .subcommand(named("rebuild", "fill a new one from the journal, compare, and flip").arg(anyway))
        .subcommand(named("flip", "let the newer one serve, which stands beside"))
        .subcommand(named("rollback", "let the older one serve again, which stands beside"))
        .subcommand(named("drop", "drop the one that does not serve"))
}

fn parked() -> Command {
    let id = || Arg::new("id").required(true).value_name("TOPIC:PARTITION:OFFSET").help("which, as the list has it");
    let closed = Arg::new("closed").long("closed").action(ArgAction::SetTrue).help("those that somebody replayed or discarded");
    named("parked", "input that could not be used")
        .subcommand_required(true)
        .subcommand(named("list", "what waits for a person").arg(closed))
        .subcommand(named("show", "one of them").arg(id()))
        .subcommand(named("replay", "put its bytes back on their topic").arg(id()).arg(reason().required(true)))
        .subcommand(named("discard", "let it be").arg(id()).arg(reason().required(true)))
}

fn auth() -> Command {
    let can_i = named("can-i", "whether we may; exit 0 yes, 6 no")
        .arg(Arg::new("scope").required(true).value_name("SCOPE").help("device:update, device-lifecycle:create, …"))
        .arg(Arg::new("at").long("site").value_name("SITE").help("at this site; otherwise at any"));
    named("auth", "what we may do").subcommand_required(true).subcommand(can_i)
}

fn wait() -> Command {
    named("wait", "wait until something is so")
        .arg(Arg::new("thing").required(true).value_name("device/NAME").help("what to watch: device/<name or id>, operation/<id>"))
        .arg(
            Arg::new("for")
                .long("for")
                .required(true)
                .value_name("FIELD=VALUE")
                .help("phase=Ready, drained=true, state=succeeded, SlurmSchedulable=True"),
        )
        .arg(Arg::new("timeout").long("timeout").default_value("10m").help("how long: 30s, 10m, 2h"))
}

fn reason() -> Arg {
    Arg::new("reason").long("reason").help("why; it stands in the history")
}

fn yes() -> Arg {
    Arg::new("yes").long("yes").action(ArgAction::SetTrue).help("do not ask")
}

fn verb(v: &'static Verb) -> Command {
    let about = if v.built { v.help.to_owned() } else { format!("{} (not available in this version)", v.help) };
    let params = v.params.iter().map(|p| {
        let arg = Arg::new(p.name).long(p.name.replace('_', "-")).required(p.required).help(p.help);
        let arg = if let Some(default) = p.default { arg.default_value(default) } else { arg };
        if let Kind::OneOf(words) = p.kind { arg.value_parser(PossibleValuesParser::new(words)) } else { arg }
    });
    Command::new(v.name)
        .about(about)
        .arg(device())
        .arg(reason().required(true))
        .args(params)
        .arg(Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("say what would happen, change nothing"))
        .arg(Arg::new("no-wait").long("no-wait").action(ArgAction::SetTrue).help("do not wait for the decision"))
        .arg(Arg::new("if-version").long("if-version").value_parser(value_parser!(u64)).help("only if the device has this version"))
}

/// Prints a completion script.
pub fn completion(matches: &ArgMatches) -> Result<(), Failure> {
    let shell = matches.get_one::<clap_complete::Shell>("shell").copied();
    let shell = shell.ok_or_else(|| Failure::usage("name a shell"))?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "fmctl", &mut script);
    crate::output::print(&String::from_utf8_lossy(&script))
}
