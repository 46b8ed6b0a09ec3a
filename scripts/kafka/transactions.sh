#!/usr/bin/env bash
# Kafka's kafka-transactions, e.g. transactions.sh list
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
exec_tool_on_broker org.apache.kafka.tools.TransactionsCommand "$@"
