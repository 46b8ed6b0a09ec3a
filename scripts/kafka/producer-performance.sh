#!/usr/bin/env bash
# Kafka's load generator, e.g. producer-performance.sh --topic t --num-records 100000 --record-size 100 --throughput -1
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
exec_tool_on_broker org.apache.kafka.tools.ProducerPerformance "$@"
