#!/usr/bin/env bash
# Kafka's kafka-topics, against 127.0.0.1:KAFKA_PORT unless told otherwise, e.g. topics.sh --list
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
exec_tool_on_broker org.apache.kafka.tools.TopicCommand "$@"
