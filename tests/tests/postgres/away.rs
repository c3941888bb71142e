//! Connections that are cut, and a database that is gone for a while.

use super::proxy::{Network, Proxy};
use super::{schemas, whole};
use crate::place::{Place, generations};
use crate::rebuild::{caught_up, history};
use crate::world::{World, command, device, drain};
use fleet_projections::DeviceFilter;
use fleet_schemas::PlaceHold;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The server ends our connections, again and again, while a fleet is written: what was in the middle of a batch is written once.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_in_mid_batch_lose_and_double_nothing() {
    let Some(place) = Place::schemas("postgres::away::connections_that_are_cut_in_mid_batch_lose_and_double_nothing") else { return };
    let world = World::new().await;
    let all = generations(&place, world.log.clone()).await.unwrap();
    all.feed().await.unwrap();
    let mut cuts = schemas(&place).cut().await;
    history(&world).await;
    for n in 0.. {
        if cuts > 10 {
            break;
        }
        // Something to write, for which the projector connects again.
        world.expect(&command(device(12), PlaceHold { name: format!("h{n}"), expires_at: None }.into()), "").await;
        cuts += schemas(&place).cut().await;
    }
    world.expect(&command(device(11), drain()), "").await;
    let (watching, cancel) = (all.clone(), CancellationToken::new());
    let ended = tokio::spawn({
        let cancel = cancel.clone();
        async move { watching.watch(cancel).await }
    });
    caught_up(&all, &world).await;
    assert!(!ended.is_finished(), "the feed goes on");
    cancel.cancel();
    ended.await.unwrap().unwrap();
    all.feed().await.unwrap();
    whole(&all, &world).await;
}

/// Each of these ends its own connection once: in the middle of the batch, at the statement that writes the table, or when it commits.
const STEPS: [(&str, &str); 6] = [
    ("position", "BEFORE UPDATE ON position FOR EACH STATEMENT"),
    ("stream", "AFTER INSERT OR UPDATE ON stream FOR EACH STATEMENT"),
    ("device", "BEFORE INSERT OR UPDATE ON device FOR EACH STATEMENT"),
    ("condition", "AFTER INSERT OR UPDATE ON condition FOR EACH STATEMENT"),
    ("history", "AFTER INSERT ON history FOR EACH STATEMENT"),
    ("commit", "AFTER INSERT ON history DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"),
];

/// At every step of a batch the server ends the connection: the batch was not, and is written once when it is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_breaks_off_at_any_statement_was_not() {
    let Some(place) = Place::schemas("postgres::away::a_batch_that_breaks_off_at_any_statement_was_not") else { return };
    let world = World::new().await;
    history(&world).await;
    let all = generations(&place, world.log.clone()).await.unwrap();
    for (step, when) in STEPS {
        // A sequence keeps what it counted whatever becomes of the transaction.
        let constraint = if step == "commit" { "CONSTRAINT" } else { "" };
        let sql = format!(
            "CREATE SEQUENCE cuts_{step};
             CREATE FUNCTION cut_{step}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF nextval('cuts_{step}') <= 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
                 RETURN NULL;
             END $$;
             CREATE {constraint} TRIGGER cut_{step} {when} EXECUTE FUNCTION cut_{step}()"
        );
        place.tamper(1, &sql).await;
    }
    all.feed().await.unwrap();
    caught_up(&all, &world).await;
    for (step, _) in STEPS {
        let sql = format!("SELECT last_value FROM {}_read_1.cuts_{step}", schemas(&place).config.prefix);
        assert!(schemas(&place).number(&sql).await > 1, "{step} was cut, and then went on");
    }
    whole(&all, &world).await;
}

/// A place behind a network that can fail.
async fn behind(place: &mut Place) -> Proxy {
    let Place::Schemas(schemas) = place else { unreachable!() };
    let mut url = url::Url::parse(&schemas.config.url).unwrap();
    let proxy = Proxy::start(format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432))).await;
    url.set_port(Some(proxy.address.port())).unwrap();
    schemas.config.url = url.to_string();
    schemas.config.statement_timeout = Duration::from_millis(500);
    proxy
}

/// Gone, or silent: readers are told so in time, the process lives on, and when the database is back nothing is lost or doubled.
async fn an_outage(test: &str, outage: Network) {
    let Some(mut place) = Place::schemas(test) else { return };
    let proxy = behind(&mut place).await;
    let world = World::new().await;
    let all = generations(&place, world.log.clone()).await.unwrap();
    all.feed().await.unwrap();
    let (watching, cancel) = (all.clone(), CancellationToken::new());
    let ended = tokio::spawn({
        let cancel = cancel.clone();
        async move { watching.watch(cancel).await }
    });
    history(&world).await;
    caught_up(&all, &world).await;
    proxy.become_(outage);
    world.expect(&command(device(11), drain()), "").await;
    world.expect(&command(device(12), drain()), "").await;
    let reads = all.reads().borrow().clone();
    let asked = Instant::now();
    let error = reads.count_devices(&DeviceFilter::default()).await.unwrap_err();
    assert!(error.unavailable(), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(30), "told after {:?}", asked.elapsed());
    let (error, control) = (all.control().denials(None, 5).await.unwrap_err(), all.control().reactor_positions().await.unwrap_err());
    assert!(error.unavailable() && control.unavailable(), "{error}, {control}");
    assert!(!ended.is_finished(), "the process lives on");
    proxy.become_(Network::Forwards);
    caught_up(&all, &world).await;
    let draining = DeviceFilter { phase: Some("Draining".into()), ..Default::default() };
    assert_eq!(reads.count_devices(&draining).await.unwrap(), 7);
    assert!(!ended.is_finished(), "the process lives on");
    cancel.cancel();
    ended.await.unwrap().unwrap();
    all.feed().await.unwrap();
    whole(&all, &world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_and_comes_back_ends_nothing() {
    an_outage("postgres::away::a_database_that_goes_away_and_comes_back_ends_nothing", Network::Gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_says_nothing_any_more_holds_nobody_for_ever() {
    an_outage("postgres::away::a_network_that_says_nothing_any_more_holds_nobody_for_ever", Network::Silent).await;
}
