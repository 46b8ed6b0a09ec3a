# Sourced by the scripts beside it: paths, settings and the Java command line.
#
# Settings (environment):
#   KAFKA_DIR         directory of the broker: data, log, pid file      default: .kafka/broker of this repository
#   KAFKA_PORT        port for clients; the controller takes the next   default: 9092
#   KAFKA_ADVERTISED  host:port told to clients, for a proxy in front   default: 127.0.0.1:KAFKA_PORT
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

# Does a broker answer on this port, and does it hold itself for alive? Sends a Metadata request (version 1, no
# topics) by hand and reads how many live brokers the answer lists: no JVM has to start for that.
broker_answers() {
    local port=$1 answer
    answer=$(timeout 2 bash -c '
        exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
        printf "\0\0\0\016\0\003\0\001\0\0\0\001\377\377\0\0\0\0" >&3
        head -c 12 <&3 | od -An -v -tu1' _ "$port" 2>/dev/null | tr -s ' \n' '  ') || return 1
    # Size, correlation id (1), number of brokers (1).
    [[ $answer =~ ^\ [0-9]+\ [0-9]+\ [0-9]+\ [0-9]+\ 0\ 0\ 0\ 1\ 0\ 0\ 0\ 1\ ?$ ]]
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
