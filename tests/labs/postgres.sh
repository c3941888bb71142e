#!/usr/bin/env bash
# postgres.sh up|down|status|wipe|env   (Debian 12; loopback only; root installs what is missing, and is never who the server runs as)
# A PostgreSQL cluster of its own, with TLS and scram-sha-256, apart from any service of the machine. `up` prints the path of an env file
# (POSTGRES_URL …, FM_TEST_POSTGRES) on stdout and everything else on stderr. It starts what is not running, so
# `kill -9 "$(head -n 1 "$POSTGRES_LAB_HOME/data/postmaster.pid")"; postgres.sh up` is a crash test.
#   POSTGRES_LAB_HOME  its folder     POSTGRES_LAB_PORT  its port, fixed at the first `up`; `wipe` to change it
#   POSTGRES_LAB_ACCOUNT  whom the server runs as, where root starts it     POSTGRES_LAB_PROPS='a=b\nc=d'  more server settings
set -euo pipefail
export LC_ALL=C.UTF-8
SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) IP=127.0.0.1 ACCOUNT=${POSTGRES_LAB_ACCOUNT:-nobody} WAIT=${POSTGRES_LAB_WAIT:-60}
HELD=${FLEET_LABS_HOME:-$HOME/.cache/fleet-labs}/postgres
reached() { local d=$1; while [ "$d" != / ]; do [ ! -e "$d" ] || [[ $(stat -Lc %A "$d") == *[xt] ]] || return 1; d=$(dirname "$d"); done; }
# The account has to get there: a home folder of mode 700 is no place for it.
[ "$(id -u)" != 0 ] || reached "$HELD" || HELD=/var/lib/fleet-labs/postgres
LAB=${POSTGRES_LAB_HOME:-$HELD} PORT=${POSTGRES_LAB_PORT:-29432}
[ ! -s "$LAB/port" ] || PORT=$(cat "$LAB/port")                       # what the cluster was made with wins over the environment
say() { printf '%s postgres: %s\n' "$(date +%T)" "$*" >&2; }
bin() { local b; b=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1); [ -n "$b" ] && [ -x "$b/initdb" ] && echo "$b"; }
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid "$ACCOUNT" --regid "$(id -g "$ACCOUNT")" --clear-groups env HOME="$LAB" "$@"; else "$@"; fi; }
pid() { local p; [ -s "$LAB/data/postmaster.pid" ] && p=$(head -n 1 "$LAB/data/postmaster.pid") \
  && [[ "$(tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline")" == *"-D $LAB/data "* ]] && echo "$p"; }
sql() { PGPASSWORD=$(cat "$LAB/password.lab") "$(bin)/psql" -qAtX -v ON_ERROR_STOP=1 -h "$IP" -p "$PORT" -U lab "$@"; }

install() {
  bin >/dev/null || { [ "$(id -u)" = 0 ] || { say "PostgreSQL is missing: apt-get install postgresql"; return 1; }
    mkdir -p /etc/postgresql-common                                   # the packages make no cluster of their own, and start none
    [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    NAME=postgres bash -euc '. "$0/lib.sh"; apt_install postgresql openssl' "$SRC" >&2; }; }

secret() { [ -s "$LAB/password.$1" ] || (umask 077; od -An -v -tx1 -N 16 /dev/urandom | tr -d ' \n' >"$LAB/password.$1"); cat "$LAB/password.$1"; }

cert() ( # a CA and one server certificate; clients trust $LAB/tls/ca.pem
  [ ! -s "$LAB/tls/server.pem" ] || return 0
  mkdir -p "$LAB/tls"; cd "$LAB/tls"; exec 2>/dev/null
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=postgres-lab-ca -keyout ca.key -out ca.pem
  openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out s.csr
  openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -out server.pem -extfile <(echo "subjectAltName=IP:$IP,DNS:localhost")
  chmod 600 ./*.key; chmod 644 ca.pem server.pem; chmod 755 . )

make() { # the cluster, once
  [ ! -s "$LAB/data/PG_VERSION" ] || return 0
  local key=$LAB/data.tls; echo "$PORT" >"$LAB/port"; rm -rf --one-file-system "${LAB:?}/data" "$key"; mkdir -p "$LAB/data" "$key"; chmod 700 "$LAB/data" "$key"
  cp "$LAB/tls/server.pem" "$LAB/tls/server.key" "$key/"; secret lab >/dev/null; cp "$LAB/password.lab" "$key/pw"
  [ "$(id -u)" != 0 ] || chown -R "$ACCOUNT:" "$LAB/data" "$key"
  as "$(bin)/initdb" -D "$LAB/data" -U lab --pwfile="$key/pw" --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --no-instructions >"$LAB/initdb.log" 2>&1 \
    || { tail -n 5 "$LAB/initdb.log" >&2; rm -rf --one-file-system "${LAB:?}/data"; return 1; }
  rm -f "$key/pw"
  as tee "$LAB/data/pg_hba.conf" >/dev/null <<<"host all all $IP/32 scram-sha-256"
}

conf() { as tee "$LAB/data/lab.conf" >/dev/null <<E
listen_addresses = '$IP'
port = $PORT
unix_socket_directories = ''
ssl = on
ssl_cert_file = '$LAB/data.tls/server.pem'
ssl_key_file = '$LAB/data.tls/server.key'
password_encryption = scram-sha-256
max_connections = 200
shared_buffers = 128MB
max_wal_size = 2GB
timezone = UTC
$(printf '%b' "${POSTGRES_LAB_PROPS:-}")
E
  as grep -q '^include' "$LAB/data/postgresql.conf" || echo "include 'lab.conf'" | as tee -a "$LAB/data/postgresql.conf" >/dev/null; }

roles() { # who projects may make schemas and nothing else; who reads may read what it is granted
  local db; sql -d postgres <<E
DO \$\$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'fleet') THEN CREATE ROLE fleet LOGIN; END IF;
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'fleet_read') THEN CREATE ROLE fleet_read LOGIN; END IF;
END \$\$;
ALTER ROLE fleet PASSWORD '$(secret fleet)';
ALTER ROLE fleet_read PASSWORD '$(secret fleet_read)';
E
  db=$(sql -d postgres -c "SELECT 1 FROM pg_database WHERE datname = 'fleet'"); [ -n "$db" ] || sql -d postgres -c 'CREATE DATABASE fleet'
  sql -d fleet <<E
REVOKE ALL ON DATABASE fleet FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CONNECT, CREATE, TEMPORARY ON DATABASE fleet TO fleet;
GRANT CONNECT ON DATABASE fleet TO fleet_read;
E
}

up() {
  local t0=$EPOCHREALTIME end=$((SECONDS + WAIT)); mkdir -p "$LAB"; chmod 755 "$LAB"; exec 9>"$LAB/.lock"; flock -w 600 9
  install; cert; make; conf
  pid >/dev/null || { as rm -f "$LAB/data/postmaster.pid"; touch "$LAB/log"; as setsid nohup "$(bin)/postgres" -D "$LAB/data" -c "cluster_name=fleet-lab" >>"$LAB/log" 2>&1 </dev/null 9>&- & }
  while ! "$(bin)/pg_isready" -q -h "$IP" -p "$PORT" || ! pid >/dev/null; do
    [ $SECONDS -lt $end ] || { tail -n 5 "$LAB/log" >&2; say "did not come up in $WAIT s"; return 1; }; sleep 0.1; done
  roles; say "up in $(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $t0 }") s"; env_file; }

env_vars() { local pw; pw=$(secret fleet); printf "export %s='%s'\n" POSTGRES_URL "postgres://fleet@$IP:$PORT/fleet" POSTGRES_USER fleet POSTGRES_PASSWORD "$pw" \
  POSTGRES_READ_USER fleet_read POSTGRES_READ_PASSWORD "$(secret fleet_read)" POSTGRES_CA "$LAB/tls/ca.pem" POSTGRES_LAB_HOME "$LAB" \
  FM_TEST_POSTGRES "postgres://fleet:$pw@$IP:$PORT/fleet" FM_TEST_POSTGRES_CA "$LAB/tls/ca.pem" FM_TEST_POSTGRES_READER "fleet_read:$(secret fleet_read)"; }
env_file() { (umask 077; env_vars >"$LAB/env"); echo "$LAB/env"; }

down() { local p; ! p=$(pid) || { kill -INT "$p"
    for _ in $(seq 200); do pid >/dev/null || break; sleep 0.1; done; ! pid >/dev/null || kill -QUIT "$p"; }; say down; }

status() { local p; if p=$(pid); then printf 'up   pid %-8s %s:%s  %s connections, %s\n' "$p" "$IP" "$PORT" \
    "$(sql -d postgres -c "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")" \
    "$(sql -d postgres -c "SELECT pg_size_pretty(pg_database_size('fleet'))")"
  else echo down; return 3; fi; }

case ${1:-} in
  up | down | status) "$1" ;;
  env) env_vars ;;
  wipe) down; rm -rf --one-file-system "${LAB:?}"/{data,data.tls,tls,port,log,initdb.log,env,password.*} ;;
  *) echo "usage: $0 up|down|status|wipe|env" >&2; exit 2 ;;
esac
