#!/usr/bin/env bash
# Kafka's console producer: a record for each line of standard input, e.g. console-producer.sh --topic t
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
exec_tool_on_broker org.apache.kafka.tools.ConsoleProducer "$@"
