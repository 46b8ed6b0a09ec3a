#!/usr/bin/env bash
# Kafka's kafka-consumer-groups, e.g. consumer-groups.sh --list
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
exec_tool_on_broker org.apache.kafka.tools.consumer.group.ConsumerGroupCommand "$@"
