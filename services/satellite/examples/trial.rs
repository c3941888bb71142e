//! Temporary: drives an agent against a lab, one look per line of stdin.
use fleet_satellite::{Agent, Clock, DeviceList, ListedDevice, Look, Memory, SlurmLink, SystemClock, netbox, slurm};
use fleet_schemas::{DeviceId, Fact};
use std::{io::BufRead, time::Duration};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args[1].as_str() {
        "slurm" => {
            let devices = args[5..].iter().enumerate().map(|(i, n)| ListedDevice {
                id: DeviceId::from_netbox("t", i as i64),
                name: n.clone(),
                slurm_node: Some(n.clone()),
            });
            let s = slurm::Settings {
                site: "dc1".parse().unwrap(),
                url: args[2].clone(),
                user: args[3].clone(),
                jwt_file: args[4].clone().into(),
                interval: Duration::from_secs(60),
                deadline: Duration::from_secs(30),
            };
            drive(slurm::Agent::new(s).unwrap(), DeviceList { devices: devices.collect() }).await
        }
        _ => {
            let s = netbox::Settings {
                instance: "lab".into(),
                url: args[2].clone(),
                token_file: args[3].clone().into(),
                sites: args[4].split(',').map(|s| s.parse().unwrap()).collect(),
                interval: Duration::from_secs(60),
                sweep_every: Duration::from_secs(args[5].parse().unwrap()),
                window: Duration::from_secs(600),
                deadline: Duration::from_secs(30),
                slurm_link: SlurmLink::CustomField("slurm_node".into()),
            };
            drive(netbox::Agent::new(s).unwrap(), DeviceList::default()).await
        }
    }
}

async fn drive<A: Agent>(mut agent: A, devices: DeviceList) {
    let mut memory = Memory::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let begin = std::time::Instant::now();
        println!("== {line}");
        match agent.look(Look { devices: &devices, memory: &memory, now: SystemClock.now() }).await {
            Err(e) => println!("ERR {:?} {} | {e}", e.class, e.fault),
            Ok(s) => {
                memory.apply(&s.memory);
                if s.observations.len() < 30 {
                    for o in &s.observations {
                        match &o.fact {
                            Fact::SlurmNodeSeen(f) => {
                                let c: Vec<String> = f
                                    .conditions
                                    .iter()
                                    .map(|c| format!("{}={}/{}", c.r#type.trim_start_matches("Slurm"), c.status, c.reason))
                                    .collect();
                                println!(
                                    "{} {} [{}] since={:?} {}",
                                    o.native_id,
                                    c.join(" "),
                                    f.section.as_ref().map_or(String::new(), |s| format!("{} {:?}", s.state.join("+"), s.reservation)),
                                    f.section.as_ref().and_then(|s| s.drain_since).is_some(),
                                    f.conditions[1].message
                                );
                            }
                            Fact::NetboxDeviceSeen(f) => {
                                let c: Vec<String> =
                                    f.conditions.iter().map(|c| format!("{}={}/{} {}", c.r#type, c.status, c.reason, c.message)).collect();
                                println!(
                                    "{}@{} {:?} {} rack={:?} status={} phase={:?} {:?} edits={:?}",
                                    o.native_id,
                                    o.site,
                                    f.inventory.name,
                                    f.inventory.role,
                                    f.inventory.rack,
                                    f.inventory.status,
                                    f.inventory.fleet_phase,
                                    c,
                                    f.edits.iter().map(|e| format!("{}:{} {}->{}", e.user, e.field, e.before, e.after)).collect::<Vec<_>>()
                                );
                            }
                            Fact::NetboxDeviceGone(f) => println!("GONE {} by {:?} {}", f.netbox_id, f.deleted_by, f.noticed_by),
                            _ => {}
                        }
                    }
                } else {
                    println!("{} observations", s.observations.len());
                }
                println!(
                    "complete={:?} failed={:?}",
                    s.complete.iter().map(|c| (c.site.to_string(), c.count)).collect::<Vec<_>>(),
                    s.failed.map(|e| e.to_string())
                );
            }
        }
        println!("took {} ms", begin.elapsed().as_millis());
    }
}
