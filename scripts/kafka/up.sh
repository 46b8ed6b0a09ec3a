#!/usr/bin/env bash
# Starts a Kafka broker on the loopback interface and waits until it answers.
#
#   scripts/kafka/up.sh [PROPERTY=VALUE ...]
#
# The settings are environment variables, listed in lib.sh. Arguments are appended to the broker's properties.
# A broker that is up already is left alone. The data stays in KAFKA_DIR: a broker that was stopped or killed
# continues from it. Brokers with different KAFKA_DIR and KAFKA_PORT run side by side; they are one cluster when they
# have the same KAFKA_CLUSTER_ID and the same controller.quorum.voters, each a node.id of its own, and are started
# together: one alone is no majority, and waits.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for property in "$@"; do
    [[ $property == ?*=* ]] || fail "not PROPERTY=VALUE: $property"
done
[[ $kafka_port =~ ^[0-9]+$ ]] && ((kafka_port > 0 && kafka_port < 65535)) || fail "KAFKA_PORT is no port: $kafka_port"

"$kafka_scripts/fetch.sh"
mkdir -p "$kafka_dir"
exec 9>"$kafka_dir/up.lock"
flock 9

# The broker must not inherit the lock, nor the caller's terminal.
start() {
    setsid java $kafka_heap -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true \
        -Dorg.slf4j.simpleLogger.defaultLogLevel="${KAFKA_BROKER_LOG:-warn}" \
        -Dorg.slf4j.simpleLogger.showDateTime=true "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS" \
        -cp "$kafka_lib/*" kafka.Kafka "$kafka_dir/server.properties" \
        </dev/null >>"$kafka_log" 2>&1 9>&- &
    echo $! >"$kafka_pid_file"
}

format() {
    local id
    id=${KAFKA_CLUSTER_ID:-$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | tr -d '=')}
    java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
        -cp "$kafka_lib/*" kafka.tools.StorageTool format --ignore-formatted \
        --cluster-id "$id" --config "$kafka_dir/server.properties" </dev/null >>"$kafka_log" 2>&1 9>&-
}

# After SIGKILL the cluster's own records still call the broker alive and leader of its partitions, until its session is
# over. A broker that comes back before that takes up the transactions which it was about to end, cannot reach itself
# yet, loses its leadership for the moment of its new registration, and then takes the partitions without a leader for
# deleted ones: Kafka 4.4 forgets the markers of these transactions for good (KAFKA-20734), and their records and
# offsets stay undecided for ever. Clusters with replicas have another leader to go to, one broker has not. So a
# controller on the same data first declares the killed broker dead. Of several brokers the others do.
fence_former_self() {
    local log=$kafka_dir/fence.log settings=$kafka_dir/fence.properties patience=60 pid
    sed -e 's|^process.roles=.*|process.roles=controller|' -e '/^inter.broker.listener.name=/d' \
        -e '/^advertised.listeners=/d' -e "s|^listeners=.*|listeners=CONTROLLER://127.0.0.1:$((kafka_port + 1))|" \
        -e 's|^broker.session.timeout.ms=.*|broker.session.timeout.ms=100|' \
        "$kafka_dir/server.properties" >"$settings"
    # Without us it ends all the same.
    timeout -k 5 60 java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.log.org.apache.kafka.controller=info \
        -cp "$kafka_lib/*" kafka.Kafka "$settings" </dev/null >"$log" 2>&1 9>&- &
    pid=$!
    # One that was killed before it was alive is dead already: then nothing follows the activation.
    until grep -q "Fencing broker $(setting node.id) " "$log" || ((patience <= 0)); do
        kill -0 "$pid" 2>/dev/null || give_up "the killed broker is not declared dead, see $log"
        ! grep -q 'Performing controller activation' "$log" || patience=$((patience - 1))
        sleep 0.05
    done
    kill "$pid"
    wait "$pid" || true
}

# Writes the settings anew, formats an empty data directory and starts the process.
prepare_and_start() {
    local port patience=50
    # A broker that was killed a moment ago may still hold its ports.
    for port in "$kafka_port" $((kafka_port + 1)); do
        while port_taken "$port"; do
            ((patience-- > 0)) || fail "port $port is taken by another process"
            sleep 0.1
        done
    done
    sed -e "s|@PORT@|$kafka_port|g" -e "s|@CONTROLLER_PORT@|$((kafka_port + 1))|g" \
        -e "s|@ADVERTISED@|${KAFKA_ADVERTISED:-127.0.0.1:$kafka_port}|g" -e "s|@DATA@|$kafka_dir/data|g" \
        "$kafka_scripts/server.properties" >"$kafka_dir/server.properties"
    (($# == 0)) || printf '%s\n' "$@" >>"$kafka_dir/server.properties"
    if [[ ! -e $kafka_dir/data/meta.properties ]]; then
        format || give_up "the data directory could not be formatted"
    elif [[ ! -e $kafka_dir/data/.kafka_cleanshutdown && $(setting controller.quorum.voters) != *,* ]]; then
        fence_former_self
    fi
    start
}

give_up() {
    tail -n 20 "$kafka_log" >&2
    fail "$*, see $kafka_log"
}

# The new process takes a moment until its command line is that of the broker.
has_ended() {
    local _
    for _ in {1..20}; do
        [[ -z $(broker_pid) ]] || return 1
        sleep 0.1
    done
}

started=no
if [[ -z $(broker_pid) ]]; then
    prepare_and_start "$@"
    started=yes
fi

deadline=$((SECONDS + ${KAFKA_WAIT:-60}))
until broker_answers "$kafka_port" "$(setting node.id)" && [[ -n $(broker_pid) ]]; do
    if has_ended; then
        # It was there when we came: somebody stopped or killed it at the same time.
        [[ $started == no ]] || give_up "the broker has ended"
        prepare_and_start "$@"
        started=yes
    fi
    ((SECONDS < deadline)) || give_up "no answer on port $kafka_port in time"
    sleep 0.1
done
echo "kafka: 127.0.0.1:$kafka_port, pid $(broker_pid), $kafka_dir"
