#!/usr/bin/env bash
# Kafka's console consumer, e.g. console-consumer.sh --topic t --from-beginning --isolation-level read_committed
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
exec_tool_on_broker org.apache.kafka.tools.consumer.ConsoleConsumer "$@"
