# Sourced by the scripts beside it: paths, settings and the Java command line.
#
# Settings (environment):
#   KAFKA_DIR         directory of the broker: data, log, pid file      default: .kafka/broker of this repository
#   KAFKA_PORT        port for clients; the controller takes the next   default: 9092
#   KAFKA_ADVERTISED  host:port told to clients, for a proxy in front   default: 127.0.0.1:KAFKA_PORT
#   KAFKA_CLUSTER_ID  id of the cluster that an empty directory joins   default: a new one
#   KAFKA_HEAP        heap of the broker                                default: -Xmx1g
#   KAFKA_LIB         directory of the jars                             default: .kafka/lib of this repository
#   KAFKA_WAIT        seconds to wait for a broker to answer            default: 60

set -euo pipefail

kafka_scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kafka_root=$(cd "$kafka_scripts/../.." && pwd)
kafka_lib=${KAFKA_LIB:-$kafka_root/.kafka/lib}
kafka_dir=$(realpath -m "${KAFKA_DIR:-$kafka_root/.kafka/broker}")
kafka_port=${KAFKA_PORT:-9092}
kafka_heap=${KAFKA_HEAP:--Xmx1g}
kafka_pid_file=$kafka_dir/broker.pid
kafka_log=$kafka_dir/broker.log

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# The pid of the broker of $kafka_dir when it runs, else nothing. A pid that another process has taken since is
# not ours: the command line has to name our own settings file.
broker_pid() {
    local pid
    pid=$(cat "$kafka_pid_file" 2>/dev/null) || return 0
    [[ $pid =~ ^[0-9]+$ ]] || return 0
    if tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "$kafka_dir/server.properties"; then
        echo "$pid"
    fi
}

# The value of a property in the broker's settings: the last line wins, as for the broker.
setting() {
    sed -n "s/^$1=//p" "$kafka_dir/server.properties" | tail -n 1
}

# Does the broker with this node id answer on this port, and does it hold itself for alive? Sends a Metadata request
# (version 1, no topics) by hand and looks for it among the live brokers of the answer: no JVM has to start for that.
broker_answers() {
    local port=$1 node=$2 answer at left
    answer=$(timeout 2 bash -c '
        exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
        printf "\0\0\0\016\0\003\0\001\0\0\0\001\377\377\0\0\0\0" >&3
        size=$(head -c 4 <&3 | od -An -tu4 --endian=big)
        head -c $size <&3 | od -An -v -tu1' _ "$port" 2>/dev/null) || return 1
    local -a bytes=($answer)
    # Correlation id (1), number of brokers (a few).
    [[ ${bytes[*]:0:7} == "0 0 0 1 0 0 0" ]] || return 1
    for ((at = 8, left = bytes[7]; left > 0; left--)); do
        # Its id in 4 bytes (all but the last are 0), its host with a length in 2, its port in 4, no rack in 2.
        ((bytes[at + 3] != node)) || return 0
        ((at += 4 + 2 + bytes[at + 5] + 4 + 2))
    done
    return 1
}

# Is anything listening on this port?
port_taken() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Runs one of Kafka's command line tools in place of this shell. Tools are short: the quick compiler suits them.
exec_tool() {
    "$kafka_scripts/fetch.sh"
    exec java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -Dorg.slf4j.simpleLogger.defaultLogLevel="${KAFKA_TOOL_LOG:-off}" -cp "$kafka_lib/*" "$@"
}

# Runs a tool with --bootstrap-server, unless the caller names one.
exec_tool_on_broker() {
    local class=$1 argument
    shift
    for argument in "$@"; do
        case $argument in
        --bootstrap-server | --bootstrap-server=*) exec_tool "$class" "$@" ;;
        esac
    done
    exec_tool "$class" --bootstrap-server "127.0.0.1:$kafka_port" "$@"
}
