//! What holds of every history of a configuration.

use super::*;
use crate::laws::config as cases;
use fleet_lifecycle::{Decider, Fleet, bootstrap::Config};
use proptest::prelude::*;

fn fields() -> impl Strategy<Value = BootstrapFields> {
    let text = || prop::option::of(prop::sample::select(&["a", "b", ""][..]).prop_map(str::to_owned));
    let features = prop::collection::vec(prop::sample::select(&["ib", "h100", "a b"][..]).prop_map(str::to_owned), 0..3);
    (text(), text(), features, text()).prop_map(|(image, flavor, features, gres)| BootstrapFields { image, flavor, features, gres })
}

fn ask() -> impl Strategy<Value = Ask> {
    let data = || prop::option::of((1..3u128, 0..3u8).prop_map(|(key, content)| sealed(key, content)));
    let set = prop::collection::vec(prop::sample::select(&["image", "flavor", "features", "gres", "user_data", "colour"][..]), 0..4);
    prop_oneof![
        2 => (fields(), data()).prop_map(|(fields, user_data)| CreateBootstrapConfig { fields, user_data }.into()),
        5 => (set, fields(), data()).prop_map(|(set, fields, user_data)| patch_data(&set, fields, user_data)),
        1 => Just(retire()),
        1 => (0..9u64).prop_map(read),
    ]
}

proptest! {
    #![proptest_config(cases())]

    /// Versions count every change and nothing else, the event tells the whole, a refusal changes nothing, replay is live.
    #[test]
    fn every_history_of_a_configuration_keeps_the_laws(asks in prop::collection::vec(ask(), 1..40)) {
        let mut story = given_config([]);
        for ask in asks {
            let before = story.config().clone();
            let read = matches!(ask, Ask::ReadUserData(_));
            story = story.when(ask);
            let now = story.config();
            let changed = story.came().all().count() > 0;
            prop_assert_eq!(now.version, story.run.version, "the stream's version is the configuration's");
            prop_assert_eq!(now.version, before.version + u64::from(changed));
            prop_assert!(changed || *now == before);
            prop_assert!(!(read && changed));
            prop_assert!(now.user_data.as_ref().is_none_or(|u| u.version <= now.version));
            if changed && before.standing && now.standing {
                prop_assert!((&before.fields, &before.user_data) != (&now.fields, &now.user_data), "a version that changes nothing");
            }
        }
        let mut replayed = Fleet::new(&story.run.stream);
        story.run.log.iter().for_each(|(at, events)| events.iter().for_each(|e| Fleet::evolve(&mut replayed, e, *at)));
        prop_assert_eq!(&replayed, &story.run.entity);
        let stored: Config = postcard::from_bytes(&postcard::to_stdvec(story.config()).unwrap()).unwrap();
        prop_assert_eq!(&stored, story.config());
    }
}
